//! One row of `outbox_event`, as a store hands it out.
//!
//! Invariant: nothing here was checked against the document yet; the relay does that before each
//! send, since a row may have been written by anyone (requirement 004 §18.1).

use super::{EventIdentities, SchemaIdentity, TraceContext};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest};
use domain_core::identity::{DestinationBindingRevision, PublicationEpoch, TransactionResourceId};
use domain_core::instant::DatabaseInstant;

/// A stored event: what the encoder sealed plus the four values only the store knows.
#[derive(Clone)]
pub struct StoredOutboxEvent {
    /// The identity columns.
    pub identities: EventIdentities,
    /// What the document was validated against.
    pub schemas: SchemaIdentity,
    /// The binding revision it was appended under.
    pub binding_revision: DestinationBindingRevision,
    /// The key column.
    pub partition_key: PartitionKey,
    /// Whether order within the aggregate is required.
    pub ordering_required: bool,
    /// The trace columns.
    pub trace: Option<TraceContext>,
    /// The wire authority.
    pub envelope: Vec<u8>,
    /// The hash column.
    pub envelope_sha256: Sha256Digest,
    /// The epoch it was appended in.
    pub publication_epoch: PublicationEpoch,
    /// Who may publish it.
    pub dispatch_authority: DispatchAuthority,
    /// The store it was appended to.
    pub transaction_resource: TransactionResourceId,
    /// When it was inserted, by the database clock.
    pub created_at: DatabaseInstant,
}

impl std::fmt::Debug for StoredOutboxEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredOutboxEvent")
            .field("event_id", &self.identities.event_id)
            .field("contract_id", &self.identities.contract_id)
            .field("envelope_bytes", &self.envelope.len())
            .finish_non_exhaustive()
    }
}
