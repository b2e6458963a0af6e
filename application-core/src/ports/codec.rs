//! Drafts to exact documents, and exact documents to what they say.
//!
//! Invariant: implemented once, injected on both sides; no remote schema is ever fetched
//! (requirement 004 §§12.3, 14.7). No error holds a payload value.

use crate::contract::ContractKey;
use crate::event::{EventIdentities, IntegrationEventDraft, ValidatedIntegrationEvent};
use domain_core::identity::{EventId, TenantScopeError};

/// The rule that a payload or document broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectionRule {
    /// A bound was exceeded or not reached: the rule's name and its value, such as
    /// (`maxLength`, `80`) or (`maximum payload bytes`, `360`).
    Bound {
        /// The rule's name.
        rule: String,
        /// The bound.
        bound: String,
    },
    /// A rule without a bound, such as `required field is missing`.
    Shape(String),
}

impl std::fmt::Display for RejectionRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bound { rule, bound } => write!(f, "{rule} is {bound}"),
            Self::Shape(rule) => f.write_str(rule),
        }
    }
}

/// A payload that its contract refuses: which contract, where, and which bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("contract {contract}: at {}: {rule}", if pointer.is_empty() { "the payload's root" } else { pointer })]
pub struct PayloadRejection {
    /// The contract version.
    pub contract: ContractKey,
    /// JSON pointer (RFC 6901) into the payload; empty for the payload itself.
    pub pointer: String,
    /// The broken rule.
    pub rule: RejectionRule,
}

/// Why a draft has no document.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The payload's exact type is in no contract of the catalog.
    #[error("payload type {payload_type} is registered by no contract")]
    UnknownPayloadType {
        /// The type's name.
        payload_type: &'static str,
    },
    /// The catalog knows the version, but producers may not write it any more.
    #[error("contract {contract} is not among the versions that may be appended")]
    VersionRetired {
        /// The contract version.
        contract: ContractKey,
    },
    /// The aggregate is not of the contract's kind.
    #[error("contract {contract} is about aggregate type {expected}, not {actual}")]
    AggregateType {
        /// The contract version.
        contract: ContractKey,
        /// The contract's aggregate type.
        expected: String,
        /// The draft's.
        actual: String,
    },
    /// The contract's destination has no binding that is current for appends.
    #[error("contract {contract}: its destination has no current binding")]
    NoBinding {
        /// The contract version.
        contract: ContractKey,
    },
    /// The tenant does not fit the deployment.
    #[error("contract {contract}: the tenant does not fit this deployment")]
    Tenant {
        /// The contract version.
        contract: ContractKey,
        /// Why.
        #[source]
        source: TenantScopeError,
    },
    /// The contract refuses the payload or the document.
    #[error("the payload was refused")]
    Rejected(#[source] PayloadRejection),
}

/// Why bytes are not an envelope this process accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More bytes than any contract allows.
    #[error("the document has {actual} bytes; at most {maximum} are allowed")]
    TooLarge {
        /// Bytes given.
        actual: usize,
        /// Bytes allowed.
        maximum: usize,
    },
    /// Not strict JSON: syntax, encoding, duplicate name, depth, number or trailing bytes.
    #[error("the document is not acceptable JSON at byte {offset}: {rule}")]
    Json {
        /// Byte offset.
        offset: usize,
        /// The broken rule.
        rule: String,
    },
    /// JSON, but not an envelope of version 1.
    #[error("the document is not an envelope at {pointer}: {rule}")]
    Envelope {
        /// JSON pointer into the document.
        pointer: String,
        /// The broken rule.
        rule: RejectionRule,
    },
    /// A contract or version that the catalog does not have.
    #[error("contract {0} is not in the catalog")]
    UnknownContract(ContractKey),
    /// A payload that its contract refuses.
    #[error("the payload was refused")]
    Payload(#[source] PayloadRejection),
}

/// A document that was read back and validated.
#[derive(Clone)]
pub struct DecodedEnvelope {
    /// What it says about itself.
    pub identities: EventIdentities,
    /// The payload, as the exact bytes of its JSON object.
    pub payload: Vec<u8>,
}

impl std::fmt::Debug for DecodedEnvelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecodedEnvelope")
            .field("event_id", &self.identities.event_id)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl DecodedEnvelope {
    /// The event's identity.
    pub fn event_id(&self) -> &EventId {
        &self.identities.event_id
    }
}

/// The deterministic encoder and strict decoder of envelope version 1.
pub trait EnvelopeCodec: Send + Sync {
    /// Encodes and validates a draft. The same draft gives the same bytes, always.
    ///
    /// # Errors
    /// [`EncodeError`] with contract, pointer and bound.
    fn encode(
        &self,
        draft: &IntegrationEventDraft,
    ) -> Result<ValidatedIntegrationEvent, EncodeError>;

    /// Reads the identities of a document without validating its payload: what the relay compares
    /// with the row before each send.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn read_identities(&self, envelope: &[u8]) -> Result<EventIdentities, DecodeError>;

    /// Reads and validates a whole document.
    ///
    /// # Errors
    /// [`DecodeError`] with pointer and bound.
    fn decode(&self, envelope: &[u8]) -> Result<DecodedEnvelope, DecodeError>;
}
