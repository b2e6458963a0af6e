//! Publication without durability: nothing is stored, and nothing is sent again by itself.
//!
//! Invariant: whoever calls is told exactly what happened, and never that more did: an acknowledgement
//! is no `DELIVERY_RECORDED`, and there is no order beside other sends (requirement 004 §20).

use crate::event::ValidatedIntegrationEvent;
use domain_core::identity::{ContractId, EventId, LogicalDestinationId};
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{AcceptanceCertainty, PublicationFailure, PublicationOutcome};
use std::sync::Arc;

/// One message to send once.
#[derive(Debug, Clone)]
pub struct BestEffortMessage {
    /// The sealed document.
    pub event: Arc<ValidatedIntegrationEvent>,
    /// After this the outcome is `INDETERMINATE`, or rejected when nothing was sent by then.
    pub deadline: MonotonicInstant,
}

/// Sends messages that nothing keeps.
#[async_trait::async_trait]
pub trait BestEffortPublicationPort: Send + Sync {
    /// One bounded attempt, under a permit of its own. As with
    /// [`OutboxMessagePublishPort`](super::OutboxMessagePublishPort) everything that happens is one of
    /// the four outcomes; a later acknowledgement MUST NOT change it, and is kept nowhere.
    async fn publish_best_effort(&self, message: &BestEffortMessage) -> PublicationOutcome;
}

/// One outcome, for a metric or a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BestEffortReport {
    /// The event.
    pub event_id: EventId,
    /// The contract, from the closed catalog.
    pub contract_id: ContractId,
    /// The destination, from the closed catalog.
    pub destination: LogicalDestinationId,
    /// What is known about acceptance.
    pub certainty: AcceptanceCertainty,
    /// Why it failed, where it did.
    pub failure: Option<PublicationFailure>,
}

/// Takes outcomes, whatever the caller does with them.
pub trait BestEffortObserver: Send + Sync {
    /// Takes one without blocking.
    fn observe(&self, report: &BestEffortReport);
}
