//! What an error of the client means: an allow-list, and `INDETERMINATE` for all else.
//!
//! Invariant: certainty comes from code, message status and phase; disposition from whose fault
//! the code names. Only a refusal of the record itself that is proved unaccepted is `NO_RETRY`,
//! so a provider at fault never exhausts a backlog (requirement 004 §§15.3–15.5, 16.7).

use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use rdkafka::types::RDKafkaErrorCode as Code;

/// What the client knows about the broker having stored a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageStatus {
    /// It never left, or the broker refused it.
    NotPersisted,
    /// It was on its way to the broker and no answer came.
    PossiblyPersisted,
    /// The broker answered that it has it.
    Persisted,
}

/// When the client spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It refused to take the record over; no report will follow.
    Send,
    /// It reported on a record that it had taken over.
    Delivery(MessageStatus),
}

/// Whose fault an error names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The record can never be stored as it is.
    Record,
    /// Nothing can be stored before something is repaired: rights, identity, channel, topic,
    /// versions, or the client itself.
    Provider,
    /// It may pass.
    Passing,
}

/// The outcome of an attempt that the client ended with an error (requirement 004 §15.4).
pub(crate) fn classify(code: Code, phase: Phase) -> PublicationOutcome {
    let not_accepted = proves_absence(code, phase);
    let (class, fault) = meaning(code);
    let failure = PublicationFailure {
        stage: stage(code, phase),
        class,
        disposition: match fault {
            Fault::Record if not_accepted => RetryDisposition::NoRetry,
            Fault::Record | Fault::Passing => RetryDisposition::RetryWithinBudget,
            Fault::Provider => RetryDisposition::StopProvider,
        },
    };
    if not_accepted {
        PublicationOutcome::Rejected(failure)
    } else {
        PublicationOutcome::Indeterminate(failure)
    }
}

/// The stable class of what a code names.
pub(crate) fn class_of(code: Code) -> FailureClass {
    meaning(code).0
}

/// The class, if the code names a fault that somebody must repair before anything can be sent.
pub(crate) fn provider_fault(code: Code) -> Option<FailureClass> {
    match meaning(code) {
        (class, Fault::Provider) => Some(class),
        (_, Fault::Record | Fault::Passing) => None,
    }
}

/// The allow-list. The client's own NOT_PERSISTED is not enough: it is also said of errors after
/// which a broker may well hold the record.
///
/// The limit of this list: `PurgeQueue` and `MessageTimedOut` with NOT_PERSISTED may also end a
/// record whose earlier requests were answered with errors that the client tried again by itself
/// and does not show, a lost leader's or a failed storage's among them.
fn proves_absence(code: Code, phase: Phase) -> bool {
    match phase {
        Phase::Send => matches!(
            code,
            Code::QueueFull
                | Code::MessageSizeTooLarge
                | Code::UnknownPartition
                | Code::Fatal
                | Code::TopicAuthorizationFailed
        ),
        Phase::Delivery(MessageStatus::NotPersisted) => matches!(
            code,
            Code::TopicAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::MessageSizeTooLarge
                | Code::MessageBatchTooLarge
                | Code::InvalidRecord
                | Code::InvalidTimestamp
                | Code::InvalidRequiredAcks
                | Code::PolicyViolation
                | Code::UnsupportedForMessageFormat
                | Code::PurgeQueue
                | Code::MessageTimedOut
        ),
        Phase::Delivery(MessageStatus::PossiblyPersisted | MessageStatus::Persisted) => false,
    }
}

fn meaning(code: Code) -> (FailureClass, Fault) {
    match code {
        // One record of a batch is over the limit on its own: the configuration compiler keeps
        // batches of several below every topic's limit.
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            (FailureClass::RecordTooLarge, Fault::Record)
        }
        Code::InvalidRecord | Code::InvalidTimestamp => {
            (FailureClass::InvalidPayload, Fault::Record)
        }
        // A checksum that failed on the way says nothing about the record.
        Code::InvalidMessage | Code::InvalidDifferentRecord => {
            (FailureClass::InvalidPayload, Fault::Passing)
        }
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed => (FailureClass::Unauthorized, Fault::Provider),
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::DelegationTokenExpired => (FailureClass::AuthenticationFailed, Fault::Provider),
        Code::SSL => (FailureClass::TlsFailed, Fault::Provider),
        Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicId => (FailureClass::DestinationMissing, Fault::Provider),
        Code::PolicyViolation
        | Code::InvalidTopic
        | Code::InvalidRequiredAcks
        | Code::UnsupportedForMessageFormat
        | Code::InvalidConfig => (FailureClass::TopicPolicyMismatch, Fault::Provider),
        Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedCompressionType
        | Code::Fatal
        | Code::Fenced
        | Code::ProducerFenced
        | Code::Inconsistent
        | Code::GaplessGuarantee
        | Code::OutOfOrderSequenceNumber
        | Code::InvalidProducerEpoch
        | Code::UnknownProducerId
        | Code::InvalidProducerIdMapping
        | Code::CriticalSystemResource => (FailureClass::ProviderFatal, Fault::Provider),
        Code::QueueFull => (FailureClass::BufferExhausted, Fault::Passing),
        Code::MessageTimedOut
        | Code::RequestTimedOut
        | Code::OperationTimedOut
        | Code::TimedOutQueue => (FailureClass::DeadlineExceeded, Fault::Passing),
        Code::PurgeQueue | Code::PurgeInflight | Code::BrokerDestroy | Code::DestroyBroker => {
            (FailureClass::ClientClosed, Fault::Passing)
        }
        Code::ThrottlingQuotaExceeded => (FailureClass::Throttled, Fault::Passing),
        Code::BrokerTransportFailure
        | Code::NetworkException
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::BrokerNotAvailable
        | Code::ReplicaNotAvailable
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::ISRInsufficient
        | Code::KafkaStorageError
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch => (FailureClass::BrokerUnavailable, Fault::Passing),
        _ => (FailureClass::UnknownProviderFailure, Fault::Passing),
    }
}

fn stage(code: Code, phase: Phase) -> FailureStage {
    match (meaning(code).0, phase) {
        (FailureClass::BufferExhausted, _) => FailureStage::LocalAdmission,
        (FailureClass::DestinationMissing, _) => FailureStage::Metadata,
        (FailureClass::ClientClosed, _) => FailureStage::Shutdown,
        (FailureClass::ProviderFatal | FailureClass::UnknownProviderFailure, _) => {
            FailureStage::Provider
        }
        (_, Phase::Send) => FailureStage::Send,
        (_, Phase::Delivery(_)) => FailureStage::BrokerAck,
    }
}

#[cfg(test)]
#[path = "classify_table.rs"]
mod table;
