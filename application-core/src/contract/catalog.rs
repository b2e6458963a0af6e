//! The closed set of contract versions of one process.
//!
//! Invariant: each (contract, version) is there once, each payload type belongs to one of them,
//! and the revision hash covers every field of every descriptor, whatever order they came in.

use super::{ContractDescriptor, DescriptorError, FieldKind, OrderingRequirement};
use crate::event::PayloadType;
use domain_core::hashing::{CanonicalHasher, Sha256Digest};
use domain_core::identity::{AggregateType, ContractId, LogicalDestinationId, PayloadVersion};
use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};

/// Names one contract version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractKey {
    /// Stable name.
    pub contract_id: ContractId,
    /// Payload version.
    pub payload_version: PayloadVersion,
}

impl std::fmt::Display for ContractKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} version {}", self.contract_id, self.payload_version)
    }
}

/// Why a set of contracts is not a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// A descriptor contradicts itself.
    #[error("a contract contradicts itself")]
    Descriptor(#[from] DescriptorError),
    /// The same version twice.
    #[error("contract {0} is registered twice")]
    DuplicateContract(ContractKey),
    /// The same schema document id twice.
    #[error("schema {id} is registered by contract {first} and by contract {second}")]
    DuplicateSchema {
        /// The document's `$id`.
        id: String,
        /// Who registered it first.
        first: ContractKey,
        /// Who registered it again.
        second: ContractKey,
    },
    /// One type for two contracts.
    #[error("payload type {payload_type} is registered by contract {first} and by {second}")]
    DuplicatePayloadType {
        /// The type's name.
        payload_type: &'static str,
        /// Who registered it first.
        first: ContractKey,
        /// Who registered it again.
        second: ContractKey,
    },
    /// Ordered and unordered events would share one scope.
    #[error(
        "destination {destination}, aggregate type {aggregate_type}: contract {first} requires \
         order and contract {second} does not"
    )]
    MixedOrdering {
        /// The shared destination.
        destination: LogicalDestinationId,
        /// The shared kind of aggregate.
        aggregate_type: AggregateType,
        /// The one that requires order.
        first: ContractKey,
        /// The one that does not.
        second: ContractKey,
    },
}

/// The closed catalog: descriptors by key and by exact payload type.
#[derive(Debug, Clone)]
pub struct ContractCatalog {
    contracts: BTreeMap<ContractKey, ContractDescriptor>,
    by_type: HashMap<TypeId, ContractKey>,
    revision: Sha256Digest,
    schema_set: Sha256Digest,
}

impl ContractDescriptor {
    /// The version's name.
    pub fn key(&self) -> ContractKey {
        ContractKey {
            contract_id: self.contract_id.clone(),
            payload_version: self.payload_version,
        }
    }
}

impl ContractCatalog {
    /// Builds the catalog. Contracts known from manifests alone have no payload type.
    ///
    /// # Errors
    /// [`CatalogError`] with both sides of a conflict.
    pub fn build(
        contracts: impl IntoIterator<Item = (ContractDescriptor, Option<PayloadType>)>,
        envelope_schema: Sha256Digest,
    ) -> Result<Self, CatalogError> {
        let mut by_key = BTreeMap::new();
        let mut by_type: HashMap<TypeId, ContractKey> = HashMap::new();
        let mut by_schema: HashMap<String, ContractKey> = HashMap::new();
        for (descriptor, payload_type) in contracts {
            descriptor.check()?;
            let key = descriptor.key();
            let schema_id = descriptor.payload_schema.id.clone();
            if let Some(first) = by_schema.insert(schema_id.clone(), key.clone())
                && first != key
            {
                return Err(CatalogError::DuplicateSchema {
                    id: schema_id,
                    first,
                    second: key,
                });
            }
            if let Some(payload_type) = payload_type
                && let Some(first) = by_type.insert(payload_type.id(), key.clone())
                && first != key
            {
                return Err(CatalogError::DuplicatePayloadType {
                    payload_type: payload_type.name(),
                    first,
                    second: key,
                });
            }
            if by_key.insert(key.clone(), descriptor).is_some() {
                return Err(CatalogError::DuplicateContract(key));
            }
        }
        refuse_mixed_ordering(by_key.values())?;
        let revision = revision(by_key.values(), envelope_schema);
        let schema_set = schema_set(by_key.values(), envelope_schema);
        Ok(Self {
            contracts: by_key,
            by_type,
            revision,
            schema_set,
        })
    }

    /// The descriptor of one version.
    pub fn find(&self, key: &ContractKey) -> Option<&ContractDescriptor> {
        self.contracts.get(key)
    }

    /// The descriptor whose payloads are of exactly this type.
    pub fn find_by_type(&self, payload_type: PayloadType) -> Option<&ContractDescriptor> {
        self.by_type
            .get(&payload_type.id())
            .and_then(|key| self.contracts.get(key))
    }

    /// Every descriptor, by contract and version.
    pub fn iter(&self) -> impl Iterator<Item = &ContractDescriptor> {
        self.contracts.values()
    }

    /// Whether there is nothing to publish.
    pub fn is_empty(&self) -> bool {
        self.contracts.is_empty()
    }

    /// One hash over everything the catalog states.
    pub fn revision(&self) -> Sha256Digest {
        self.revision
    }

    /// One hash over all schema documents.
    pub fn schema_set(&self) -> Sha256Digest {
        self.schema_set
    }
}

fn refuse_mixed_ordering<'a>(
    contracts: impl Iterator<Item = &'a ContractDescriptor>,
) -> Result<(), CatalogError> {
    let mut seen: BTreeMap<_, &ContractDescriptor> = BTreeMap::new();
    for contract in contracts {
        let scope = (&contract.destination, &contract.aggregate_type);
        let other = *seen.entry(scope).or_insert(contract);
        if other.ordering != contract.ordering {
            let required =
                |one: &ContractDescriptor| one.ordering == OrderingRequirement::AggregateSequence;
            let (first, second) = if required(other) {
                (other, contract)
            } else {
                (contract, other)
            };
            return Err(CatalogError::MixedOrdering {
                destination: contract.destination.clone(),
                aggregate_type: contract.aggregate_type.clone(),
                first: first.key(),
                second: second.key(),
            });
        }
    }
    Ok(())
}

fn schema_set<'a>(
    contracts: impl Iterator<Item = &'a ContractDescriptor>,
    envelope_schema: Sha256Digest,
) -> Sha256Digest {
    contracts
        .fold(
            CanonicalHasher::new("countersign.schema-set.v1").part(envelope_schema.as_bytes()),
            |hasher, contract| {
                hasher
                    .part(contract.payload_schema.id.as_bytes())
                    .part(contract.payload_schema.sha256.as_bytes())
            },
        )
        .finish()
}

fn revision<'a>(
    contracts: impl Iterator<Item = &'a ContractDescriptor>,
    envelope_schema: Sha256Digest,
) -> Sha256Digest {
    contracts
        .fold(
            CanonicalHasher::new("countersign.contract-catalog.v1")
                .part(envelope_schema.as_bytes()),
            |hasher, contract| hasher.part(contract.digest().as_bytes()),
        )
        .finish()
}

impl ContractDescriptor {
    /// One hash over every field of the descriptor; what a lock file pins.
    pub fn digest(&self) -> Sha256Digest {
        // Destructured, so that a new field cannot be forgotten here.
        let Self {
            contract_id,
            payload_version,
            owner_module,
            destination,
            aggregate_type,
            payload_schema,
            serializer,
            ordering,
            partition_key,
            maximum_payload_bytes,
            maximum_envelope_bytes,
            sensitivity,
            versions,
            requeue_horizon,
            fields,
        } = self;
        let list = |versions: &[PayloadVersion]| {
            versions
                .iter()
                .flat_map(|version| version.value().to_be_bytes())
                .collect::<Vec<u8>>()
        };
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes();
        let hasher = CanonicalHasher::new("countersign.contract.v2")
            .part(contract_id.as_str().as_bytes())
            .part(&payload_version.value().to_be_bytes())
            .part(owner_module.as_bytes())
            .part(destination.as_str().as_bytes())
            .part(aggregate_type.as_str().as_bytes())
            .part(payload_schema.id.as_bytes())
            .part(payload_schema.sha256.as_bytes())
            .part(serializer.as_bytes())
            .part(ordering.as_str().as_bytes())
            .part(partition_key.as_str().as_bytes())
            .part(&maximum_payload_bytes.to_be_bytes())
            .part(&maximum_envelope_bytes.to_be_bytes())
            .part(sensitivity.as_str().as_bytes())
            .part(&list(&versions.producer))
            .part(&list(&versions.consumer))
            .part(&requeue_horizon.as_micros().to_be_bytes())
            .part(&count(fields.len()));
        fields
            .iter()
            .fold(hasher, |hasher, field| {
                let hasher = hasher
                    .part(field.path.as_bytes())
                    .part(field.kind.name().as_bytes());
                match &field.kind {
                    // Their number first, so that a value never reads as the next field.
                    FieldKind::Enum(values) => values
                        .iter()
                        .fold(hasher.part(&count(values.len())), |hasher, value| {
                            hasher.part(value.as_bytes())
                        }),
                    _ => hasher,
                }
            })
            .finish()
    }
}

impl FieldKind {
    /// The stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Enum(_) => "enum",
            Self::Record => "record",
            Self::List => "list",
        }
    }
}
