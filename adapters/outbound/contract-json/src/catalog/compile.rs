//! Contributions and manifests to one catalog.
//!
//! Invariant: every contract has a schema that is pinned, offline and in agreement with its field
//! list, and every version that the newest one says consumers must read is there to be read.

use crate::manifest::ManifestContract;
use crate::payload::{Shape, ShapeError, compile_shape};
use crate::schema::{Judge, SchemaDocument, SchemaError, agree, envelope_schema_digest};
use application_core::contract::{
    BindingSet, CatalogError, ContractCatalog, ContractDescriptor, ContractKey, DescriptorError,
    IntegrationEventContractContribution, VersionMatrix,
};
use application_core::event::PayloadType;
use application_core::ports::KnownRecord;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ContractId, PayloadVersion};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why contracts do not compile.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A descriptor contradicts itself.
    #[error("a contract contradicts itself")]
    Descriptor(#[source] DescriptorError),
    /// The field list is not a payload's canonical order.
    #[error("contract {contract}: the field list was refused")]
    Fields {
        /// The contract version.
        contract: ContractKey,
        /// Why.
        #[source]
        source: ShapeError,
    },
    /// The schema document is refused.
    #[error("contract {contract}: the payload schema was refused")]
    Schema {
        /// The contract version.
        contract: ContractKey,
        /// Why.
        #[source]
        source: SchemaError,
    },
    /// Code and manifest state the same contract version differently.
    #[error("contract {contract}: what code contributes differs from the manifest")]
    RoutesDiffer {
        /// The contract version.
        contract: ContractKey,
    },
    /// The same version came twice the same way, or two contracts share what only one may have.
    #[error("the contracts do not make a catalog")]
    Catalog(#[source] CatalogError),
    /// The newest version says that consumers read other versions than the catalog has.
    #[error(
        "contract {contract}: its newest version {newest} lists consumer versions that differ \
         from the catalog's at version {version}"
    )]
    ConsumerVersions {
        /// The contract.
        contract: ContractId,
        /// Its newest version in the catalog.
        newest: PayloadVersion,
        /// The first version that is on one side only.
        version: PayloadVersion,
    },
}

/// Collects contracts and compiles them.
#[derive(Default)]
pub struct ContractCompiler {
    contributed: Vec<Source>,
    declared: Vec<Source>,
}

struct Source {
    descriptor: ContractDescriptor,
    payload_type: Option<PayloadType>,
    schema: Vec<u8>,
}

impl std::fmt::Debug for ContractCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContractCompiler")
            .field("contributed", &self.contributed.len())
            .field("declared", &self.declared.len())
            .finish()
    }
}

impl ContractCompiler {
    /// Starts with no contract.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a contract from code.
    #[must_use]
    pub fn contribution(mut self, contribution: &dyn IntegrationEventContractContribution) -> Self {
        self.contributed.push(Source {
            descriptor: contribution.descriptor(),
            payload_type: Some(contribution.payload_type()),
            schema: contribution.payload_schema().to_vec(),
        });
        self
    }

    /// Adds contracts from code.
    #[must_use]
    pub fn contributions(
        self,
        contributions: &[Arc<dyn IntegrationEventContractContribution>],
    ) -> Self {
        contributions
            .iter()
            .fold(self, |compiler, one| compiler.contribution(one.as_ref()))
    }

    /// Adds contracts from manifests. One that code contributes too must say exactly the same.
    #[must_use]
    pub fn manifests(mut self, manifests: Vec<ManifestContract>) -> Self {
        self.declared
            .extend(manifests.into_iter().map(|manifest| Source {
                descriptor: manifest.descriptor,
                payload_type: None,
                schema: manifest.schema,
            }));
        self
    }

    /// Compiles schemas, field lists and the closed catalog.
    ///
    /// # Errors
    /// [`CompileError`] with the first contract that is refused.
    pub fn compile(self) -> Result<CompiledCatalog, CompileError> {
        let sources = merge_routes(self.contributed, self.declared)?;
        let envelope = SchemaDocument::envelope();
        let mut contracts = BTreeMap::new();
        for source in &sources {
            let contract = compile_contract(source, &envelope)?;
            contracts.insert(source.descriptor.key(), Arc::new(contract));
        }
        let catalog = ContractCatalog::build(
            sources
                .into_iter()
                .map(|source| (source.descriptor, source.payload_type)),
            envelope_schema_digest(),
        )
        .map_err(CompileError::Catalog)?;
        let newest = newest_matrices(&catalog)?;
        let judge = envelope
            .judge(&envelope)
            .expect("the envelope schema is checked in and pinned");
        Ok(CompiledCatalog {
            catalog,
            contracts,
            newest,
            envelope: Arc::new(judge),
        })
    }
}

/// A contract that came both ways is one contract.
fn merge_routes(
    contributed: Vec<Source>,
    declared: Vec<Source>,
) -> Result<Vec<Source>, CompileError> {
    let mut sources = contributed;
    let from_code = sources.len();
    for manifest in declared {
        let key = manifest.descriptor.key();
        match sources[..from_code]
            .iter()
            .find(|source| source.descriptor.key() == key)
        {
            None => sources.push(manifest),
            Some(code)
                if code.descriptor == manifest.descriptor && code.schema == manifest.schema => {}
            Some(_) => return Err(CompileError::RoutesDiffer { contract: key }),
        }
    }
    Ok(sources)
}

fn compile_contract(
    source: &Source,
    envelope: &SchemaDocument,
) -> Result<CompiledContract, CompileError> {
    let descriptor = &source.descriptor;
    descriptor.check().map_err(CompileError::Descriptor)?;
    let shape = compile_shape(&descriptor.fields).map_err(|source| CompileError::Fields {
        contract: descriptor.key(),
        source,
    })?;
    let schema = || {
        let document = SchemaDocument::payload(&source.schema, &descriptor.payload_schema)?;
        agree(document.value(), envelope.value(), &shape)?;
        document.judge(envelope)
    };
    let judge = schema().map_err(|source| CompileError::Schema {
        contract: descriptor.key(),
        source,
    })?;
    Ok(CompiledContract { shape, judge })
}

/// The version matrix of each contract's newest version. It speaks for the contract: older
/// descriptors are frozen and cannot know of newer versions.
fn newest_matrices(
    catalog: &ContractCatalog,
) -> Result<BTreeMap<ContractId, VersionMatrix>, CompileError> {
    let mut versions: BTreeMap<&ContractId, Vec<&ContractDescriptor>> = BTreeMap::new();
    for descriptor in catalog.iter() {
        versions
            .entry(&descriptor.contract_id)
            .or_default()
            .push(descriptor);
    }
    let mut newest = BTreeMap::new();
    for (contract, descriptors) in versions {
        let Some(last) = descriptors.last() else {
            continue;
        };
        let present: Vec<_> = descriptors.iter().map(|one| one.payload_version).collect();
        let listed = &last.versions.consumer;
        let differing = present
            .iter()
            .find(|version| !listed.contains(version))
            .or_else(|| listed.iter().find(|version| !present.contains(version)));
        if let Some(version) = differing {
            return Err(CompileError::ConsumerVersions {
                contract: contract.clone(),
                newest: last.payload_version,
                version: *version,
            });
        }
        newest.insert(contract.clone(), last.versions.clone());
    }
    Ok(newest)
}

/// One contract's compiled parts.
#[derive(Debug)]
pub(crate) struct CompiledContract {
    pub(crate) shape: Shape,
    pub(crate) judge: Judge,
}

/// Everything the repository states, compiled; nothing of a deployment.
#[derive(Debug, Clone)]
pub struct CompiledCatalog {
    catalog: ContractCatalog,
    contracts: BTreeMap<ContractKey, Arc<CompiledContract>>,
    newest: BTreeMap<ContractId, VersionMatrix>,
    envelope: Arc<Judge>,
}

impl CompiledCatalog {
    /// The closed catalog, with its revision.
    pub fn catalog(&self) -> &ContractCatalog {
        &self.catalog
    }

    /// SHA-256 of the envelope schema.
    pub fn envelope_schema(&self) -> Sha256Digest {
        envelope_schema_digest()
    }

    /// Which records a process with these bindings may claim: every version of the catalog under
    /// every revision of its destination, superseded ones included.
    pub fn known_records(&self, bindings: &BindingSet) -> Vec<KnownRecord> {
        self.catalog
            .iter()
            .flat_map(|descriptor| {
                bindings
                    .of(&descriptor.destination)
                    .map(|binding| KnownRecord {
                        contract: descriptor.key(),
                        payload_schema: descriptor.payload_schema.sha256,
                        destination: descriptor.destination.clone(),
                        binding_revision: binding.revision.clone(),
                    })
            })
            .collect()
    }

    pub(crate) fn compiled(&self, key: &ContractKey) -> Option<&Arc<CompiledContract>> {
        self.contracts.get(key)
    }

    pub(crate) fn may_append(&self, descriptor: &ContractDescriptor) -> bool {
        self.newest
            .get(&descriptor.contract_id)
            .is_some_and(|matrix| matrix.producer.contains(&descriptor.payload_version))
    }

    pub(crate) fn envelope(&self) -> &Judge {
        &self.envelope
    }
}
