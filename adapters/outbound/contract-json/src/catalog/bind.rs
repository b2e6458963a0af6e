//! A compiled catalog in one deployment.
//!
//! Invariant: contract bytes ≤ destination bytes ≤ provider bytes; each contract has exactly one
//! binding that is current; an override only tightens (requirement 004 §§13.2–13.3).

use super::bind_error::BindError;
use super::compile::{CompiledCatalog, CompiledContract};
use crate::schema::envelope_schema_digest;
use application_core::contract::{
    BindingSet, ContractCatalog, ContractDescriptor, ContractKey, OrderingRequirement,
};
use application_core::event::{PayloadType, SchemaIdentity};
use application_core::ports::KnownRecord;
use domain_core::identity::DestinationBindingRevision;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a record's key.
const KEY_BYTES: u32 = 64;

/// What the publishing provider takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderBounds {
    /// The provider's card id, such as `journal-acknowledged.v1`.
    pub card: String,
    /// Bytes that one envelope may have in the worst case of everything else in the record.
    pub maximum_envelope_bytes: u32,
    /// The earliest occurrence, in milliseconds since 1970-01-01T00:00:00Z, that its record
    /// timestamp can hold; nothing when it holds any.
    pub earliest_epoch_millis: Option<i64>,
    /// Why it takes no more, for whoever reads the error.
    pub reason: String,
}

/// What a deployment says about one contract. Each value given must tighten the contract's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractOverride {
    /// The contract version.
    pub contract: ContractKey,
    /// A lower payload bound.
    pub maximum_payload_bytes: Option<u32>,
    /// A lower envelope bound.
    pub maximum_envelope_bytes: Option<u32>,
    /// A required order where the contract requires none.
    pub ordering: Option<OrderingRequirement>,
}

/// What a deployment adds to the catalog.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The destinations' bindings.
    pub bindings: BindingSet,
    /// The publishing provider.
    pub provider: ProviderBounds,
    /// Tightened contracts.
    pub overrides: Vec<ContractOverride>,
}

impl CompiledCatalog {
    /// Puts the catalog into a deployment.
    ///
    /// # Errors
    /// [`BindError`] with the first thing that does not fit.
    pub fn bind(self, deployment: Deployment) -> Result<BoundCatalog, BindError> {
        let Deployment {
            bindings,
            provider,
            overrides,
        } = deployment;
        let effective = tighten(self.catalog(), &overrides)?;
        let schemas = |descriptor: &ContractDescriptor| SchemaIdentity {
            envelope_schema: envelope_schema_digest(),
            payload_schema: descriptor.payload_schema.sha256,
            schema_set: self.catalog().schema_set(),
            catalog_revision: self.catalog().revision(),
        };
        let mut contracts = BTreeMap::new();
        for descriptor in self.catalog().iter() {
            let key = descriptor.key();
            let tightened = effective
                .find(&key)
                .expect("tightening keeps every contract");
            let compiled = self
                .compiled(&key)
                .expect("every contract of the catalog is compiled");
            let revision = current_binding(tightened, &bindings, &provider)?;
            let bound = BoundContract {
                may_append: self.may_append(descriptor),
                maximum_payload_bytes: tightened.maximum_payload_bytes,
                maximum_envelope_bytes: tightened.maximum_envelope_bytes,
                ordering_required: tightened.ordering == OrderingRequirement::AggregateSequence,
                binding_revision: revision,
                schemas: schemas(descriptor),
                compiled: Arc::clone(compiled),
                descriptor: descriptor.clone(),
            };
            contracts.insert(key, bound);
        }
        check_bindings(self.catalog(), &bindings, &provider)?;
        let maximum_document_bytes = self
            .catalog()
            .iter()
            .map(|descriptor| descriptor.maximum_envelope_bytes)
            .max()
            .unwrap_or(0);
        Ok(BoundCatalog {
            compiled: self,
            contracts,
            bindings,
            maximum_document_bytes,
            earliest_epoch_millis: provider.earliest_epoch_millis,
        })
    }
}

/// The catalog with every override applied; only its bounds and orderings are used.
fn tighten(
    catalog: &ContractCatalog,
    overrides: &[ContractOverride],
) -> Result<ContractCatalog, BindError> {
    let mut tightened: BTreeMap<ContractKey, ContractDescriptor> = catalog
        .iter()
        .map(|descriptor| (descriptor.key(), descriptor.clone()))
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    for one in overrides {
        let Some(descriptor) = tightened.get_mut(&one.contract) else {
            return Err(BindError::OverrideOfUnknown(one.contract.clone()));
        };
        if !seen.insert(&one.contract) {
            return Err(BindError::OverrideTwice(one.contract.clone()));
        }
        lower(
            &one.contract,
            "maximum payload bytes",
            &mut descriptor.maximum_payload_bytes,
            one.maximum_payload_bytes,
        )?;
        lower(
            &one.contract,
            "maximum envelope bytes",
            &mut descriptor.maximum_envelope_bytes,
            one.maximum_envelope_bytes,
        )?;
        match (descriptor.ordering, one.ordering) {
            (OrderingRequirement::AggregateSequence, Some(OrderingRequirement::None)) => {
                return Err(BindError::RelaxesOrdering {
                    contract: one.contract.clone(),
                });
            }
            (_, Some(ordering)) => descriptor.ordering = ordering,
            (_, None) => {}
        }
    }
    ContractCatalog::build(
        tightened.into_values().map(|descriptor| (descriptor, None)),
        envelope_schema_digest(),
    )
    .map_err(BindError::Contradiction)
}

fn lower(
    contract: &ContractKey,
    bound: &'static str,
    declared: &mut u32,
    configured: Option<u32>,
) -> Result<(), BindError> {
    match configured {
        Some(configured) if configured > *declared => Err(BindError::RelaxesBound {
            contract: contract.clone(),
            bound,
            declared: *declared,
            configured,
        }),
        Some(configured) => {
            *declared = configured;
            Ok(())
        }
        None => Ok(()),
    }
}

fn current_binding(
    contract: &ContractDescriptor,
    bindings: &BindingSet,
    provider: &ProviderBounds,
) -> Result<DestinationBindingRevision, BindError> {
    let binding =
        bindings
            .current(&contract.destination)
            .ok_or_else(|| BindError::UnboundDestination {
                contract: contract.key(),
                destination: contract.destination.clone(),
            })?;
    let contract_bytes = contract.maximum_envelope_bytes;
    if contract_bytes > provider.maximum_envelope_bytes {
        return Err(BindError::ExceedsProvider {
            contract: contract.key(),
            contract_bytes,
            provider: provider.card.clone(),
            provider_bytes: provider.maximum_envelope_bytes,
            reason: provider.reason.clone(),
        });
    }
    if contract_bytes > binding.maximum_envelope_bytes {
        return Err(BindError::ExceedsDestination {
            contract: contract.key(),
            contract_bytes,
            revision: binding.revision.clone(),
            destination_bytes: binding.maximum_envelope_bytes,
        });
    }
    Ok(binding.revision.clone())
}

fn check_bindings(
    catalog: &ContractCatalog,
    bindings: &BindingSet,
    provider: &ProviderBounds,
) -> Result<(), BindError> {
    for binding in bindings.iter() {
        if !catalog
            .iter()
            .any(|descriptor| descriptor.destination == binding.destination)
        {
            return Err(BindError::IdleDestination(binding.destination.clone()));
        }
        if binding.maximum_envelope_bytes > provider.maximum_envelope_bytes {
            return Err(BindError::DestinationExceedsProvider {
                revision: binding.revision.clone(),
                destination_bytes: binding.maximum_envelope_bytes,
                provider: provider.card.clone(),
                provider_bytes: provider.maximum_envelope_bytes,
                reason: provider.reason.clone(),
            });
        }
        let key_and_envelope = binding.maximum_envelope_bytes.saturating_add(KEY_BYTES);
        if key_and_envelope > binding.maximum_record_bytes {
            return Err(BindError::RecordTooSmall {
                revision: binding.revision.clone(),
                record_bytes: binding.maximum_record_bytes,
                envelope_bytes: binding.maximum_envelope_bytes,
            });
        }
    }
    Ok(())
}

/// One contract as this deployment runs it. Appends keep the tightened bounds; reading keeps the
/// contract's own, since a document may be older than the tightening.
#[derive(Debug)]
pub(crate) struct BoundContract {
    pub(crate) descriptor: ContractDescriptor,
    pub(crate) compiled: Arc<CompiledContract>,
    pub(crate) may_append: bool,
    pub(crate) maximum_payload_bytes: u32,
    pub(crate) maximum_envelope_bytes: u32,
    pub(crate) ordering_required: bool,
    pub(crate) binding_revision: DestinationBindingRevision,
    pub(crate) schemas: SchemaIdentity,
}

/// A catalog in one deployment.
#[derive(Debug)]
pub struct BoundCatalog {
    compiled: CompiledCatalog,
    contracts: BTreeMap<ContractKey, BoundContract>,
    bindings: BindingSet,
    maximum_document_bytes: u32,
    earliest_epoch_millis: Option<i64>,
}

impl BoundCatalog {
    /// The catalog without the deployment.
    pub fn compiled(&self) -> &CompiledCatalog {
        &self.compiled
    }

    /// The closed catalog.
    pub fn catalog(&self) -> &ContractCatalog {
        self.compiled.catalog()
    }

    /// The deployment's bindings.
    pub fn bindings(&self) -> &BindingSet {
        &self.bindings
    }

    /// Which records this process may claim.
    pub fn known_records(&self) -> Vec<KnownRecord> {
        self.compiled.known_records(&self.bindings)
    }

    /// Bytes of the largest document that any contract allows.
    pub fn maximum_document_bytes(&self) -> u32 {
        self.maximum_document_bytes
    }

    /// The earliest occurrence that the provider can carry, in epoch milliseconds.
    pub(crate) fn earliest_epoch_millis(&self) -> Option<i64> {
        self.earliest_epoch_millis
    }

    pub(crate) fn find(&self, key: &ContractKey) -> Option<&BoundContract> {
        self.contracts.get(key)
    }

    pub(crate) fn find_by_type(&self, payload_type: PayloadType) -> Option<&BoundContract> {
        let descriptor = self.catalog().find_by_type(payload_type)?;
        self.find(&descriptor.key())
    }
}
