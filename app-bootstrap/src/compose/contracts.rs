//! Contracts, bindings and producer settings of a profile, compiled without opening anything but
//! their files.
//!
//! Invariant: what is served is exactly what the profile names and the lock pins; code may
//! contribute types to those contracts, never further contracts (requirement 004 §§13.1–13.3).

use super::compiled::{Compiled, CompiledProducer, RECORD_OVERHEAD_BYTES};
use super::error::ComposeError;
use super::provider::kafka_configuration;
use crate::config::{ActiveProfile, KafkaProfile, ProviderProfile};
use application_core::contract::{
    BindingSet, ContractCatalog, DestinationBinding, IntegrationEventContractContribution,
};
use outbound_contract_json::{
    ContractCompiler, ContractOverride, ContractsLock, Deployment, ProviderBounds, load_manifest,
};
use outbound_journal::broker;
use outbound_messaging_kafka::SecurityProfile;
use std::sync::Arc;

/// Compiles the profile's contracts from their manifests.
///
/// # Errors
/// [`ComposeError`] with file, contract and rule.
pub fn compile(profile: &ActiveProfile) -> Result<Compiled, ComposeError> {
    compile_with(profile, &[])
}

/// The same, with payload types for the contracts that code contributes too. A contribution that
/// the profile does not name, or that says something else than its manifest, is refused.
///
/// # Errors
/// [`ComposeError`] with file, contract and rule.
pub fn compile_with(
    profile: &ActiveProfile,
    contributions: &[Arc<dyn IntegrationEventContractContribution>],
) -> Result<Compiled, ComposeError> {
    let manifests = profile
        .manifests
        .iter()
        .map(|file| load_manifest(file))
        .collect::<Result<Vec<_>, _>>()
        .map_err(ComposeError::Manifest)?;
    if manifests.is_empty() {
        return Err(ComposeError::NoContract);
    }
    if let Some(unnamed) = contributions
        .iter()
        .map(|contribution| contribution.descriptor().key())
        .find(|key| manifests.iter().all(|one| one.descriptor.key() != *key))
    {
        return Err(ComposeError::UnnamedContribution(unnamed));
    }
    let catalog = ContractCompiler::new()
        .contributions(contributions)
        .manifests(manifests)
        .compile()
        .map_err(ComposeError::Contracts)?;
    horizons_fit(profile, catalog.catalog())?;
    read_lock(profile)?
        .check(catalog.catalog())
        .map_err(|source| ComposeError::Lock {
            file: profile.lock_file.clone(),
            source,
        })?;
    let bound = catalog
        .bind(Deployment {
            bindings: bindings(profile)?,
            provider: provider_bounds(profile),
            overrides: profile
                .overrides
                .iter()
                .map(|bounds| ContractOverride {
                    contract: bounds.contract.clone(),
                    maximum_payload_bytes: bounds.maximum_payload_bytes,
                    maximum_envelope_bytes: bounds.maximum_envelope_bytes,
                    ordering: None,
                })
                .collect(),
        })
        .map_err(ComposeError::Bind)?;
    let producer = match &profile.provider {
        ProviderProfile::Journal(journal) => CompiledProducer::Journal(journal.path.clone()),
        ProviderProfile::Kafka(kafka) => {
            permits_fit(profile, kafka, bound.maximum_document_bytes())?;
            // No relation depends on how brokers are spoken to, so that no secret is read yet.
            let proved = kafka_configuration(profile, kafka, SecurityProfile::LocalPlaintext)?;
            let largest = bound
                .maximum_document_bytes()
                .saturating_add(RECORD_OVERHEAD_BYTES);
            CompiledProducer::Kafka {
                settings: Box::new(kafka.clone()),
                memory: proved.memory_bound(largest),
            }
        }
    };
    Ok(Compiled::new(profile.clone(), Arc::new(bound), producer))
}

/// Automatic publication ends before the contract's own bound on sending the same event again.
fn horizons_fit(profile: &ActiveProfile, catalog: &ContractCatalog) -> Result<(), ComposeError> {
    let age = profile.outbox.maximum_automatic_publication_age;
    match catalog.iter().find(|one| one.requeue_horizon < age) {
        None => Ok(()),
        Some(short) => Err(ComposeError::Horizon {
            file: profile.file.clone(),
            contract: short.key(),
            horizon: short.requeue_horizon,
            age,
        }),
    }
}

/// A permit stands for a record of the largest compiled size, so all of them fit into the client's
/// buffer at once (requirement 004 §17.5).
fn permits_fit(
    profile: &ActiveProfile,
    kafka: &KafkaProfile,
    largest_document: u32,
) -> Result<(), ComposeError> {
    let records = profile.outbox.maximum_admitted_records;
    let record_bytes = largest_document.saturating_add(RECORD_OVERHEAD_BYTES);
    if u64::from(records) * u64::from(record_bytes) <= u64::from(kafka.buffer_memory_bytes) {
        return Ok(());
    }
    Err(ComposeError::PermitBytes {
        file: profile.file.clone(),
        buffer: kafka.buffer_memory_bytes,
        records,
        record_bytes,
    })
}

fn read_lock(profile: &ActiveProfile) -> Result<ContractsLock, ComposeError> {
    let file = &profile.lock_file;
    let bytes = std::fs::read(file).map_err(|source| ComposeError::LockFile {
        file: file.clone(),
        source,
    })?;
    ContractsLock::from_yaml(&bytes).map_err(|source| ComposeError::Lock {
        file: file.clone(),
        source,
    })
}

fn bindings(profile: &ActiveProfile) -> Result<BindingSet, ComposeError> {
    let bindings = profile
        .destinations
        .iter()
        .map(|destination| DestinationBinding {
            destination: destination.destination.clone(),
            revision: destination.revision.clone(),
            maximum_record_bytes: destination.maximum_record_bytes,
            maximum_envelope_bytes: destination.maximum_envelope_bytes,
            current: destination.current,
        })
        .collect();
    BindingSet::build(bindings).map_err(ComposeError::Bindings)
}

fn provider_bounds(profile: &ActiveProfile) -> ProviderBounds {
    let card = profile
        .tuple
        .card("publication.producer-profile")
        .unwrap_or_default()
        .to_owned();
    match &profile.provider {
        ProviderProfile::Journal(_) => ProviderBounds {
            card,
            maximum_envelope_bytes: u32::try_from(broker::MAX_ENVELOPE_BYTES).unwrap_or(u32::MAX),
            earliest_epoch_millis: None,
            reason: "a journal record has at most 1024 bytes in all".to_owned(),
        },
        ProviderProfile::Kafka(kafka) => ProviderBounds {
            card,
            maximum_envelope_bytes: kafka.maximum_request_bytes,
            // The client reads the timestamp 0 as "now", and earlier ones do not exist for it.
            earliest_epoch_millis: Some(1),
            reason: "a record must fit into one request".to_owned(),
        },
    }
}
