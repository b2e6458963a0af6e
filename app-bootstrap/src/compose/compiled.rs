//! A profile with its contracts, compiled; nothing is open yet.
//!
//! Invariant: everything static was checked before a value of this type exists.

use crate::config::{ActiveProfile, KafkaProfile};
use application_core::ports::EnvelopeCodec;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::TenantMode;
use outbound_contract_json::{BoundCatalog, JsonEnvelopeCodec};
use std::path::PathBuf;
use std::sync::Arc;

/// A provider whose settings were proved; nothing is open yet, and no secret was read.
#[derive(Clone)]
pub(super) enum CompiledProducer {
    /// The journal at this path.
    Journal(PathBuf),
    /// A Kafka client with these settings.
    Kafka(Box<KafkaProfile>),
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
        Self {
            profile,
            catalog,
            codec: Arc::new(codec),
            producer,
        }
    }

    /// One hash over everything the contracts state.
    pub fn catalog_revision(&self) -> Sha256Digest {
        self.catalog.catalog().revision()
    }
}
