//! Everything one contract version states about itself.
//!
//! Invariant: a descriptor that passed [`ContractDescriptor::check`] is complete in itself;
//! configuration can only tighten it (requirement 004 §§13.1, 13.3).

use domain_core::delivery::PublicationWindow;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{AggregateType, ContractId, LogicalDestinationId, PayloadVersion};
use std::time::Duration;

/// Whether events of one aggregate must be published in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderingRequirement {
    /// In the aggregate's total order.
    AggregateSequence,
    /// In any order.
    None,
}

impl OrderingRequirement {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AggregateSequence => "aggregate-sequence",
            Self::None => "none",
        }
    }
}

/// How the partition key is derived. There is one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionKeyPolicy {
    /// From tenant scope, destination and aggregate (requirement 004 §11.6).
    AggregateScope,
}

impl PartitionKeyPolicy {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AggregateScope => "aggregate-scope.v1",
        }
    }
}

/// How carefully the payload must be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sensitivity {
    /// For anyone.
    Public,
    /// For the organization.
    Internal,
    /// For those who need it.
    Confidential,
    /// Personal or otherwise regulated.
    Restricted,
}

impl Sensitivity {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Confidential => "confidential",
            Self::Restricted => "restricted",
        }
    }
}

/// A checked-in schema document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaResource {
    /// The document's absolute `$id`.
    pub id: String,
    /// SHA-256 of the exact file.
    pub sha256: Sha256Digest,
}

/// Which payload versions producers may write and consumers must read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionMatrix {
    /// Versions that may be appended now, ascending.
    pub producer: Vec<PayloadVersion>,
    /// Versions that every consumer must read, ascending; those of the replay horizon included.
    pub consumer: Vec<PayloadVersion>,
}

/// What a payload field may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    String,
    /// true or false.
    Boolean,
    /// A whole number within ±(2^53 − 1).
    Integer,
    /// One of these texts.
    Enum(Vec<String>),
    /// A nested record; its fields follow with paths below it.
    Record,
    /// A list; its items follow as `path[]`.
    List,
}

/// One field of the canonical order. Fields are listed as the document writes them, nested ones
/// after their parent: `author`, `author.name`, `tags`, `tags[]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadField {
    /// Where it is.
    pub path: String,
    /// What it holds.
    pub kind: FieldKind,
}

/// One version of one contract (requirement 004 §13.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractDescriptor {
    /// Stable name.
    pub contract_id: ContractId,
    /// Version of the payload schema.
    pub payload_version: PayloadVersion,
    /// Who owns the contract: the feature module.
    pub owner_module: String,
    /// The delivery class.
    pub destination: LogicalDestinationId,
    /// The kind of aggregate its events are about.
    pub aggregate_type: AggregateType,
    /// The payload schema.
    pub payload_schema: SchemaResource,
    /// The serializer's card id.
    pub serializer: String,
    /// Whether order within the aggregate is required.
    pub ordering: OrderingRequirement,
    /// How the key is derived.
    pub partition_key: PartitionKeyPolicy,
    /// The payload document's bound in bytes of UTF-8.
    pub maximum_payload_bytes: u32,
    /// The whole document's bound in bytes of UTF-8.
    pub maximum_envelope_bytes: u32,
    /// How carefully the payload must be handled.
    pub sensitivity: Sensitivity,
    /// Which versions are written and read.
    pub versions: VersionMatrix,
    /// How long the same event may be sent again.
    pub requeue_horizon: Duration,
    /// The payload's fields in canonical order.
    pub fields: Vec<PayloadField>,
}

/// Why a descriptor contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("contract {contract} version {version}: {rule}")]
pub struct DescriptorError {
    /// The contract.
    pub contract: ContractId,
    /// Its version.
    pub version: PayloadVersion,
    /// The broken rule, with its bound.
    pub rule: String,
}

impl ContractDescriptor {
    /// The only serializer there is.
    pub const SERIALIZER: &'static str = "json-schema-envelope.v1";
    /// No contract may ask for more than this many bytes of envelope.
    pub const ENVELOPE_CEILING: u32 = 1_048_576;

    /// Checks what can be checked without a schema.
    ///
    /// # Errors
    /// [`DescriptorError`] with the first broken rule.
    pub fn check(&self) -> Result<(), DescriptorError> {
        let rule = self.broken_rule();
        match rule {
            None => Ok(()),
            Some(rule) => Err(DescriptorError {
                contract: self.contract_id.clone(),
                version: self.payload_version,
                rule,
            }),
        }
    }

    fn broken_rule(&self) -> Option<String> {
        let ascending = |versions: &[PayloadVersion]| {
            !versions.is_empty() && versions.windows(2).all(|pair| pair[0] < pair[1])
        };
        let mut paths = std::collections::BTreeSet::new();
        if self.serializer != Self::SERIALIZER {
            Some(format!(
                "serializer is `{}`; only `{}` exists",
                self.serializer,
                Self::SERIALIZER
            ))
        } else if self.owner_module.is_empty() || self.owner_module.len() > 96 {
            Some("owner module has 1 to 96 bytes".to_owned())
        } else if self.maximum_payload_bytes == 0 {
            Some("maximum payload bytes is zero".to_owned())
        } else if self.maximum_envelope_bytes > Self::ENVELOPE_CEILING {
            Some(format!(
                "maximum envelope bytes is {}; at most {} is allowed",
                self.maximum_envelope_bytes,
                Self::ENVELOPE_CEILING
            ))
        } else if self.maximum_envelope_bytes <= self.maximum_payload_bytes {
            Some(format!(
                "maximum envelope bytes {} leaves no room around maximum payload bytes {}",
                self.maximum_envelope_bytes, self.maximum_payload_bytes
            ))
        } else if let Err(error) = PublicationWindow::check_requeue_horizon(self.requeue_horizon) {
            Some(error.to_string())
        } else if !ascending(&self.versions.producer) || !ascending(&self.versions.consumer) {
            Some("supported versions are non-empty and strictly ascending".to_owned())
        } else if let Some(missing) = self
            .versions
            .producer
            .iter()
            .find(|version| !self.versions.consumer.contains(version))
        {
            Some(format!(
                "producers may write version {missing}, which consumers need not read"
            ))
        } else if self.fields.is_empty() {
            Some("the payload has no field".to_owned())
        } else {
            self.fields
                .iter()
                .find(|field| !paths.insert(field.path.as_str()))
                .map(|field| format!("field `{}` is listed twice", field.path))
        }
    }
}
