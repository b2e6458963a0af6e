//! The encoder's result: an exact document with everything derived from it.
//!
//! Invariant: partition key and document hash are computed here from the very parts they belong
//! to, so a value of this type cannot contradict itself (requirement 004 §12.5).

use super::TraceContext;
use domain_core::hashing::{PartitionKey, Sha256Digest, envelope_sha256};
use domain_core::identity::{
    AggregateIdentity, AggregateOrder, CausationId, ContractId, CorrelationId,
    DestinationBindingRevision, EventId, LogicalDestinationId, PayloadVersion, TenantScope,
};
use domain_core::instant::OccurredAt;
use std::time::Duration;

/// The identities that envelope, headers and row share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventIdentities {
    /// Canonical identity.
    pub event_id: EventId,
    /// Contract name.
    pub contract_id: ContractId,
    /// Payload version.
    pub payload_version: PayloadVersion,
    /// Where the contract wants it to go.
    pub destination: LogicalDestinationId,
    /// Non-null tenant scope.
    pub tenant_scope: TenantScope,
    /// What it is about.
    pub aggregate: AggregateIdentity,
    /// Its place in the aggregate's order.
    pub order: AggregateOrder,
    /// When it happened.
    pub occurred_at: OccurredAt,
    /// The workflow it belongs to.
    pub correlation_id: CorrelationId,
    /// What caused it.
    pub causation_id: Option<CausationId>,
}

/// Which schemas and which catalog the document was validated against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaIdentity {
    /// The envelope schema document.
    pub envelope_schema: Sha256Digest,
    /// The payload schema document of this contract and version.
    pub payload_schema: Sha256Digest,
    /// All schema documents of the catalog.
    pub schema_set: Sha256Digest,
    /// The whole compiled catalog.
    pub catalog_revision: Sha256Digest,
}

/// What the encoder knows when it seals a document.
#[derive(Debug, Clone)]
pub struct ValidatedParts {
    /// The identities written into the document.
    pub identities: EventIdentities,
    /// What the document was validated against.
    pub schemas: SchemaIdentity,
    /// The binding revision that is current for appends.
    pub binding_revision: DestinationBindingRevision,
    /// Whether the contract requires order within the aggregate.
    pub ordering_required: bool,
    /// How long the same event may be sent again.
    pub requeue_horizon: Duration,
    /// The trace it was created in.
    pub trace: Option<TraceContext>,
    /// The exact document.
    pub envelope: Vec<u8>,
}

/// A sealed document, ready to be appended.
#[derive(Clone)]
pub struct ValidatedIntegrationEvent {
    parts: ValidatedParts,
    partition_key: PartitionKey,
    envelope_sha256: Sha256Digest,
}

impl ValidatedIntegrationEvent {
    /// The only content type of envelope version 1.
    pub const CONTENT_TYPE: &'static str = "application/json";
    /// The only envelope version.
    pub const ENVELOPE_VERSION: u32 = 1;

    /// Seals a document. Only an encoder that validated it calls this.
    pub fn seal(parts: ValidatedParts) -> Self {
        let identities = &parts.identities;
        let partition_key = PartitionKey::derive(
            &identities.tenant_scope,
            &identities.destination,
            &identities.aggregate,
        );
        let envelope_sha256 = envelope_sha256(&parts.envelope);
        Self {
            parts,
            partition_key,
            envelope_sha256,
        }
    }

    /// The identities written into the document.
    pub fn identities(&self) -> &EventIdentities {
        &self.parts.identities
    }

    /// What the document was validated against.
    pub fn schemas(&self) -> &SchemaIdentity {
        &self.parts.schemas
    }

    /// The binding revision the event keeps.
    pub fn binding_revision(&self) -> &DestinationBindingRevision {
        &self.parts.binding_revision
    }

    /// Whether the contract requires order within the aggregate.
    pub fn ordering_required(&self) -> bool {
        self.parts.ordering_required
    }

    /// How long the same event may be sent again.
    pub fn requeue_horizon(&self) -> Duration {
        self.parts.requeue_horizon
    }

    /// The trace it was created in.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.parts.trace.as_ref()
    }

    /// The exact document.
    pub fn envelope(&self) -> &[u8] {
        &self.parts.envelope
    }

    /// The ordering scope's key.
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// The hash of the exact document.
    pub fn envelope_sha256(&self) -> Sha256Digest {
        self.envelope_sha256
    }
}

impl std::fmt::Debug for ValidatedIntegrationEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValidatedIntegrationEvent")
            .field("event_id", &self.parts.identities.event_id)
            .field("contract_id", &self.parts.identities.contract_id)
            .field("envelope_bytes", &self.parts.envelope.len())
            .finish_non_exhaustive()
    }
}
