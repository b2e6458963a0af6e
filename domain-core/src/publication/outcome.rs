//! The four outcomes of an attempt and the words for why it failed.
//!
//! Invariant: an outcome holds no driver type, no payload and no free text of a provider, so it
//! can be stored, logged and shown as it is (requirement 004 §§15.2–15.4).

use crate::identity::{IdentityError, LogicalDestinationId, ProducerGeneration};
use crate::instant::DatabaseInstant;

/// Declares an enum whose stable names are stored and shown, with both directions.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The value of a stable name, if it is one.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named!(
    /// What is known about the broker having taken the record.
    AcceptanceCertainty {
        /// The broker certainly has not taken it.
        NotAccepted = "NOT_ACCEPTED",
        /// The broker said that it has, on the compiled destination.
        Accepted = "ACCEPTED",
        /// It may or may not have.
        Indeterminate = "INDETERMINATE",
        /// The broker took it on another destination than the compiled one.
        AcceptedMismatch = "ACCEPTED_MISMATCH",
    }
);
named!(
    /// What may be done next, whatever the certainty.
    RetryDisposition {
        /// Sending again cannot help, or is not needed.
        NoRetry = "NO_RETRY",
        /// Send again while the budget lasts.
        RetryWithinBudget = "RETRY_WITHIN_BUDGET",
        /// The provider is at fault, not the record: stop claiming.
        StopProvider = "STOP_PROVIDER",
        /// Only an operator may decide.
        OperatorHold = "OPERATOR_HOLD",
    }
);
named!(
    /// Where an attempt failed.
    FailureStage {
        /// Compiling contract and binding.
        ContractCompile = "CONTRACT_COMPILE",
        /// Checking or encoding the stored record.
        Serialization = "SERIALIZATION",
        /// Waiting for a permit, a lease long enough or buffer space.
        LocalAdmission = "LOCAL_ADMISSION",
        /// Looking up the destination.
        Metadata = "METADATA",
        /// Handing the record to the client.
        Send = "SEND",
        /// Waiting for the broker's answer.
        BrokerAck = "BROKER_ACK",
        /// The attempt's deadline passed.
        Deadline = "DEADLINE",
        /// The process was stopping.
        Shutdown = "SHUTDOWN",
        /// The provider itself failed.
        Provider = "PROVIDER",
    }
);
named!(
    /// Why an attempt failed.
    FailureClass {
        /// The contract or its version cannot be served.
        InvalidContract = "INVALID_CONTRACT",
        /// The broker or the codec refused the record's content.
        InvalidPayload = "INVALID_PAYLOAD",
        /// The stored row contradicts itself: hash, key or identity differs.
        RecordIntegrity = "RECORD_INTEGRITY",
        /// The record is larger than a bound.
        RecordTooLarge = "RECORD_TOO_LARGE",
        /// The destination does not exist.
        DestinationMissing = "DESTINATION_MISSING",
        /// The principal may not write there.
        Unauthorized = "UNAUTHORIZED",
        /// The principal is not known.
        AuthenticationFailed = "AUTHENTICATION_FAILED",
        /// The secure channel could not be made.
        TlsFailed = "TLS_FAILED",
        /// The topic does not have the policy that the binding asks for.
        TopicPolicyMismatch = "TOPIC_POLICY_MISMATCH",
        /// The acknowledgement names another destination.
        DestinationMismatch = "DESTINATION_MISMATCH",
        /// No room in a local buffer.
        BufferExhausted = "BUFFER_EXHAUSTED",
        /// The broker cannot be reached or cannot serve now.
        BrokerUnavailable = "BROKER_UNAVAILABLE",
        /// The broker asked for less.
        Throttled = "THROTTLED",
        /// Time ran out.
        DeadlineExceeded = "DEADLINE_EXCEEDED",
        /// The client was closed.
        ClientClosed = "CLIENT_CLOSED",
        /// The worker vanished with the attempt open.
        AttemptAbandoned = "ATTEMPT_ABANDONED",
        /// The client cannot go on; a new generation is needed.
        ProviderFatal = "PROVIDER_FATAL",
        /// Something that has no name here.
        UnknownProviderFailure = "UNKNOWN_PROVIDER_FAILURE",
    }
);

impl AcceptanceCertainty {
    /// What an ended budget may claim about acceptance: one attempt of the generation that ended
    /// `INDETERMINATE` leaves the generation `INDETERMINATE`, whatever the last attempt saw
    /// (requirement 004 §18.9). Each attempt keeps its own answer in the journal.
    #[must_use]
    pub fn when_exhausted(self, any_indeterminate: bool) -> Self {
        if any_indeterminate {
            Self::Indeterminate
        } else {
            self
        }
    }
}

/// An opaque, bounded reference to the record at the provider: 1–200 printable US-ASCII bytes.
/// It is for people and audits; nothing is ever routed by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProviderRecordReference(String);

impl ProviderRecordReference {
    /// Accepts a bounded printable text.
    ///
    /// # Errors
    /// [`IdentityError`] with the bound.
    pub fn parse(text: impl Into<String>) -> Result<Self, IdentityError> {
        const WHAT: &str = "provider record reference";
        let text = text.into();
        crate::identity::IdentityError::printable_ascii(WHAT, &text, 200)?;
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the broker's acknowledgement said, in the provider's stead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicationReceipt {
    /// The provider's card id.
    pub provider_id: &'static str,
    /// Where the record was meant to go.
    pub destination: LogicalDestinationId,
    /// The producer runtime that sent it.
    pub producer_generation: ProducerGeneration,
    /// When this process saw the acknowledgement, by its wall clock; not the broker's time.
    pub acknowledged_at: DatabaseInstant,
    /// Where the record is, for people.
    pub record_reference: ProviderRecordReference,
}

/// Why there is no acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicationFailure {
    /// Where it failed.
    pub stage: FailureStage,
    /// Why it failed.
    pub class: FailureClass,
    /// What may be done next.
    pub disposition: RetryDisposition,
}

/// The one synchronous outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicationOutcome {
    /// The broker acknowledged the record on the compiled destination.
    Acknowledged(PublicationReceipt),
    /// The broker acknowledged the record somewhere else: a misroute incident.
    AcknowledgedMismatch(PublicationReceipt),
    /// The broker certainly does not have the record.
    Rejected(PublicationFailure),
    /// The broker may have the record.
    Indeterminate(PublicationFailure),
}

impl PublicationOutcome {
    /// What is known about acceptance.
    pub fn certainty(&self) -> AcceptanceCertainty {
        match self {
            Self::Acknowledged(_) => AcceptanceCertainty::Accepted,
            Self::AcknowledgedMismatch(_) => AcceptanceCertainty::AcceptedMismatch,
            Self::Rejected(_) => AcceptanceCertainty::NotAccepted,
            Self::Indeterminate(_) => AcceptanceCertainty::Indeterminate,
        }
    }

    /// What may be done next.
    pub fn disposition(&self) -> RetryDisposition {
        match self {
            Self::Acknowledged(_) => RetryDisposition::NoRetry,
            Self::AcknowledgedMismatch(_) => RetryDisposition::OperatorHold,
            Self::Rejected(failure) | Self::Indeterminate(failure) => failure.disposition,
        }
    }

    /// The failure, where there is one to name.
    pub fn failure(&self) -> Option<PublicationFailure> {
        match self {
            Self::Acknowledged(_) => None,
            Self::AcknowledgedMismatch(_) => Some(PublicationFailure {
                stage: FailureStage::BrokerAck,
                class: FailureClass::DestinationMismatch,
                disposition: RetryDisposition::OperatorHold,
            }),
            Self::Rejected(failure) | Self::Indeterminate(failure) => Some(*failure),
        }
    }

    /// The receipt, where the broker acknowledged.
    pub fn receipt(&self) -> Option<&PublicationReceipt> {
        match self {
            Self::Acknowledged(receipt) | Self::AcknowledgedMismatch(receipt) => Some(receipt),
            Self::Rejected(_) | Self::Indeterminate(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_names_go_both_ways() {
        for class in FailureClass::ALL {
            assert_eq!(FailureClass::from_name(class.as_str()), Some(*class));
        }
        for stage in FailureStage::ALL {
            assert_eq!(FailureStage::from_name(stage.as_str()), Some(*stage));
        }
        assert_eq!(AcceptanceCertainty::from_name("accepted"), None);
        assert_eq!(RetryDisposition::ALL.len(), 4);
    }

    #[test]
    fn one_open_attempt_leaves_an_exhausted_generation_open() {
        for certainty in AcceptanceCertainty::ALL {
            assert_eq!(certainty.when_exhausted(false), *certainty);
            assert_eq!(
                certainty.when_exhausted(true),
                AcceptanceCertainty::Indeterminate
            );
        }
    }

    #[test]
    fn a_record_reference_is_printable_and_bounded() {
        assert!(ProviderRecordReference::parse("kafka:primary/t/0@17").is_ok());
        for bad in ["", "a\nb", "a\u{1b}[31m", "é", &"x".repeat(201)] {
            assert!(ProviderRecordReference::parse(bad).is_err(), "{bad:?}");
        }
    }
}
