//! The sample's contracts, contributed from code.
//!
//! Invariant: a contribution states exactly what the checked-in manifest of the same contract
//! states, and the schema is the checked-in file, byte for byte (requirement 004 §§9.8, 13.1).

mod payload;

pub use payload::{
    Audience, Author, CompletionStatus, PosterPublished, WorkLogCompleted, WorkLogReserved,
};

use application_core::contract::{
    ContractDescriptor, ContractKey, FieldKind, IntegrationEventContractContribution,
    OrderingRequirement, PartitionKeyPolicy, PayloadField, SchemaResource, Sensitivity,
    VersionMatrix,
};
use application_core::event::PayloadType;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{AggregateType, ContractId, LogicalDestinationId, PayloadVersion};
use std::sync::Arc;
use std::time::Duration;

/// The feature that owns the contracts.
pub const OWNER_MODULE: &str = "portfolio";
/// Where the feature's events are to go.
pub const DESTINATION: &str = "portfolio-domain-events";
/// Bytes a payload may have. Beside it, an envelope of [`MAXIMUM_ENVELOPE_BYTES`] leaves room for
/// ids of some 40 bytes each.
pub const MAXIMUM_PAYLOAD_BYTES: u32 = 360;
/// Bytes a document may have: what one record of the embedded journal surely holds.
pub const MAXIMUM_ENVELOPE_BYTES: u32 = 800;

const REQUEUE_HORIZON: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const SCHEMA_BASE: &str = "https://countersign.dev/contracts/messaging";

/// The sample's contracts. Each has one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contract {
    /// `portfolio.worklog.reserved` version 1, payload [`WorkLogReserved`].
    WorkLogReserved,
    /// `portfolio.worklog.completed` version 1, payload [`WorkLogCompleted`].
    WorkLogCompleted,
    /// `portfolio.poster.published` version 1, payload [`PosterPublished`].
    PosterPublished,
}

/// Every contract of the sample, for the catalog compiler.
pub fn contributions() -> Vec<Arc<dyn IntegrationEventContractContribution>> {
    Contract::ALL
        .into_iter()
        .map(|contract| Arc::new(contract) as Arc<dyn IntegrationEventContractContribution>)
        .collect()
}

impl Contract {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::WorkLogReserved,
        Self::WorkLogCompleted,
        Self::PosterPublished,
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkLogReserved => "portfolio.worklog.reserved",
            Self::WorkLogCompleted => "portfolio.worklog.completed",
            Self::PosterPublished => "portfolio.poster.published",
        }
    }

    /// Name and version.
    pub fn key(self) -> ContractKey {
        ContractKey {
            contract_id: ContractId::parse(self.name()).expect("a valid constant"),
            payload_version: version(),
        }
    }

    /// The contract of this name and version, if it is one of the sample's.
    pub fn find(contract_id: &ContractId, payload_version: PayloadVersion) -> Option<Self> {
        Self::ALL.into_iter().find(|contract| {
            contract.name() == contract_id.as_str() && payload_version == version()
        })
    }

    /// The kind of aggregate its events are about.
    pub fn aggregate_type(self) -> AggregateType {
        let name = match self {
            Self::WorkLogReserved | Self::WorkLogCompleted => "worklog",
            Self::PosterPublished => "poster",
        };
        AggregateType::parse(name).expect("a valid constant")
    }

    fn schema(self) -> &'static [u8] {
        match self {
            Self::WorkLogReserved => {
                include_bytes!(
                    "../../contracts/messaging/portfolio.worklog.reserved/v1.schema.json"
                )
            }
            Self::WorkLogCompleted => {
                include_bytes!(
                    "../../contracts/messaging/portfolio.worklog.completed/v1.schema.json"
                )
            }
            Self::PosterPublished => {
                include_bytes!(
                    "../../contracts/messaging/portfolio.poster.published/v1.schema.json"
                )
            }
        }
    }

    fn fields(self) -> Vec<PayloadField> {
        let field = |path: &str, kind| PayloadField {
            path: path.to_owned(),
            kind,
        };
        let names =
            |names: &[&str]| FieldKind::Enum(names.iter().map(|name| (*name).to_owned()).collect());
        match self {
            Self::WorkLogReserved => vec![
                field("workLogId", FieldKind::String),
                field("title", FieldKind::String),
                field("minutes", FieldKind::Integer),
                field("tags", FieldKind::List),
                field("tags[]", FieldKind::String),
            ],
            Self::WorkLogCompleted => vec![
                field("workLogId", FieldKind::String),
                field("minutesSpent", FieldKind::Integer),
                field("status", names(CompletionStatus::NAMES)),
                field("followUpNeeded", FieldKind::Boolean),
            ],
            Self::PosterPublished => vec![
                field("posterId", FieldKind::String),
                field("title", FieldKind::String),
                field("edition", FieldKind::Integer),
                field("audience", names(Audience::NAMES)),
                field("author", FieldKind::Record),
                field("author.name", FieldKind::String),
                field("author.team", FieldKind::String),
                field("onDisplayUntil", FieldKind::String),
            ],
        }
    }
}

impl IntegrationEventContractContribution for Contract {
    fn descriptor(&self) -> ContractDescriptor {
        ContractDescriptor {
            contract_id: self.key().contract_id,
            payload_version: version(),
            owner_module: OWNER_MODULE.to_owned(),
            destination: LogicalDestinationId::parse(DESTINATION).expect("a valid constant"),
            aggregate_type: self.aggregate_type(),
            payload_schema: SchemaResource {
                id: format!("{SCHEMA_BASE}/{}/v1.schema.json", self.name()),
                sha256: Sha256Digest::of(self.schema()),
            },
            serializer: ContractDescriptor::SERIALIZER.to_owned(),
            ordering: OrderingRequirement::AggregateSequence,
            partition_key: PartitionKeyPolicy::AggregateScope,
            maximum_payload_bytes: MAXIMUM_PAYLOAD_BYTES,
            maximum_envelope_bytes: MAXIMUM_ENVELOPE_BYTES,
            sensitivity: Sensitivity::Internal,
            versions: VersionMatrix {
                producer: vec![version()],
                consumer: vec![version()],
            },
            requeue_horizon: REQUEUE_HORIZON,
            fields: self.fields(),
        }
    }

    fn payload_type(&self) -> PayloadType {
        match self {
            Self::WorkLogReserved => PayloadType::of::<WorkLogReserved>(),
            Self::WorkLogCompleted => PayloadType::of::<WorkLogCompleted>(),
            Self::PosterPublished => PayloadType::of::<PosterPublished>(),
        }
    }

    fn payload_schema(&self) -> &[u8] {
        self.schema()
    }
}

fn version() -> PayloadVersion {
    PayloadVersion::new(1).expect("a valid constant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use application_core::contract::ContractCatalog;

    #[test]
    fn the_contributions_form_a_catalog_found_by_exact_type() {
        let catalog = ContractCatalog::build(
            contributions()
                .iter()
                .map(|one| (one.descriptor(), Some(one.payload_type()))),
            Sha256Digest::of(b"envelope schema"),
        )
        .expect("a catalog");
        assert_eq!(catalog.iter().count(), 3);
        let found = catalog
            .find_by_type(PayloadType::of::<PosterPublished>())
            .expect("registered");
        assert_eq!(found.key(), Contract::PosterPublished.key());
        assert!(catalog.find_by_type(PayloadType::of::<Author>()).is_none());
    }

    #[test]
    fn each_schema_document_carries_the_id_and_the_fields_that_its_descriptor_names() {
        for contract in Contract::ALL {
            let descriptor = contract.descriptor();
            let schema: serde_json::Value =
                serde_json::from_slice(contract.payload_schema()).expect("JSON");
            assert_eq!(schema["$id"], descriptor.payload_schema.id.as_str());
            for field in &descriptor.fields {
                let pointer = field
                    .path
                    .replace("[]", "/items")
                    .split('.')
                    .fold(String::new(), |path, name| {
                        format!("{path}/properties/{name}")
                    });
                let property = schema.pointer(&pointer).unwrap_or_else(|| {
                    panic!("{} lacks {}", contract.name(), field.path);
                });
                let (kind, values) = match &field.kind {
                    FieldKind::Enum(values) => ("string", Some(values)),
                    FieldKind::Record => ("object", None),
                    FieldKind::List => ("array", None),
                    other => (other.name(), None),
                };
                assert_eq!(property["type"], kind, "{}", field.path);
                assert_eq!(
                    property.get("enum"),
                    values.map(|values| serde_json::json!(values)).as_ref()
                );
            }
        }
    }

    #[test]
    fn only_known_names_and_versions_are_found() {
        let key = Contract::WorkLogReserved.key();
        assert_eq!(
            Contract::find(&key.contract_id, key.payload_version),
            Some(Contract::WorkLogReserved)
        );
        let next = PayloadVersion::new(2).unwrap();
        assert_eq!(Contract::find(&key.contract_id, next), None);
    }
}
