//! Reading the outbox, for people and summaries.
//!
//! Invariant: nothing here changes a row, and nothing here hands out a payload.

use crate::Cause;
use domain_core::delivery::DeliveryStateName;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ContractId, DeliveryGeneration, EventId};
use domain_core::publication::{AcceptanceCertainty, FailureClass};
use std::collections::BTreeMap;

/// Where the current delivery of one event stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySummary {
    /// The event.
    pub event_id: EventId,
    /// Its contract.
    pub contract_id: ContractId,
    /// The stored document's hash, to hold a broker's record against. Never shown or logged.
    pub envelope_sha256: Sha256Digest,
    /// The current generation.
    pub generation: DeliveryGeneration,
    /// Its state.
    pub state: DeliveryStateName,
    /// Claims of this generation.
    pub claim_count: u32,
    /// Publication attempts of this generation.
    pub attempt_count: u32,
    /// What the last outcome said about acceptance.
    pub last_certainty: Option<AcceptanceCertainty>,
    /// Why the last failed attempt failed; kept after a later success.
    pub last_failure_class: Option<FailureClass>,
    /// Where the broker has the record, once recorded.
    pub record_reference: Option<String>,
}

/// How many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxCounts {
    /// Rows of `outbox_event`.
    pub events: u64,
    /// Events without any delivery, whoever publishes them.
    pub without_delivery: u64,
    /// Current deliveries by state.
    pub by_state: BTreeMap<DeliveryStateName, u64>,
    /// Current deliveries with more than one publication attempt.
    pub retried: u64,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The store cannot be reached.
    #[error("the outbox cannot be read")]
    Unavailable(#[source] Cause),
    /// A stored row breaks a rule of the schema.
    #[error("a stored row cannot be read: {what}")]
    Corrupt {
        /// Which row and rule, without its content.
        what: String,
    },
}

/// Reads.
#[async_trait::async_trait]
pub trait OutboxQueryPort: Send + Sync {
    /// Counts everything, from one snapshot.
    ///
    /// # Errors
    /// [`QueryError`].
    async fn counts(&self) -> Result<OutboxCounts, QueryError>;

    /// The current delivery of one event; `None` when there is no such event or no delivery.
    ///
    /// # Errors
    /// [`QueryError`].
    async fn find_delivery(
        &self,
        event_id: &EventId,
    ) -> Result<Option<DeliverySummary>, QueryError>;

    /// Current deliveries by event id, after the given one; `limit` is 1 to 1,000.
    ///
    /// # Errors
    /// [`QueryError`].
    async fn deliveries_after(
        &self,
        after: Option<&EventId>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, QueryError>;
}
