//! A profile with its contracts, compiled; nothing is open yet.
//!
//! Invariant: everything static was checked before a value of this type exists.

use super::milestones::{Milestone, Milestones};
use crate::config::{ActiveProfile, KafkaProfile};
use application_core::ports::EnvelopeCodec;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::TenantMode;
use outbound_contract_json::{BoundCatalog, JsonEnvelopeCodec};
use outbound_messaging_kafka::MemoryBound;
use std::path::PathBuf;
use std::sync::Arc;

/// What a record has beside its document: the key, the headers and the client's own bookkeeping.
pub(super) const RECORD_OVERHEAD_BYTES: u32 = 1_024;

/// A provider whose settings were proved; nothing is open yet, and no secret was read.
#[derive(Clone)]
pub(super) enum CompiledProducer {
    /// The journal at this path.
    Journal(PathBuf),
    /// A Kafka client with these settings.
    Kafka {
        /// The settings, with references to secrets alone.
        settings: Box<KafkaProfile>,
        /// What the producer's part of the process may take.
        memory: MemoryBound,
    },
}

/// A profile with its compiled contracts.
#[derive(Clone)]
pub struct Compiled {
    /// The profile.
    pub profile: ActiveProfile,
    /// Its contracts and bindings.
    pub catalog: Arc<BoundCatalog>,
    /// The codec over them.
    pub codec: Arc<dyn EnvelopeCodec>,
    /// What the process has reached so far.
    pub milestones: Milestones,
    /// The producer's settings, proved.
    pub(super) producer: CompiledProducer,
}

impl Compiled {
    pub(super) fn new(
        profile: ActiveProfile,
        catalog: Arc<BoundCatalog>,
        producer: CompiledProducer,
    ) -> Self {
        let codec = JsonEnvelopeCodec::new(Arc::clone(&catalog), TenantMode::Disabled);
        let milestones = Milestones::default();
        milestones.reach(Milestone::Compiled);
        Self {
            milestones,
            profile,
            catalog,
            codec: Arc::new(codec),
            producer,
        }
    }

    /// What the Kafka producer's part of the process may take; `None` for another provider.
    pub fn producer_memory(&self) -> Option<MemoryBound> {
        match &self.producer {
            CompiledProducer::Journal(_) => None,
            CompiledProducer::Kafka { memory, .. } => Some(*memory),
        }
    }

    /// One hash over everything the contracts state.
    pub fn catalog_revision(&self) -> Sha256Digest {
        self.catalog.catalog().revision()
    }
}
