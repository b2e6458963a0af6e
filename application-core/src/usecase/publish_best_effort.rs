//! One message sent once, outside any transaction.
//!
//! Invariant: only what its contract accepts is sent, only where best effort was enabled, and every
//! outcome is both told and observed. It is no substitute for an append, and appends nothing
//! (requirement 004 §§15.6, 20).

use crate::event::IntegrationEventDraft;
use crate::ports::{
    BestEffortMessage, BestEffortObserver, BestEffortPublicationPort, BestEffortReport,
    EncodeError, EnvelopeCodec, MonotonicClockPort,
};
use domain_core::identity::LogicalDestinationId;
use domain_core::publication::PublicationOutcome;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Why nothing was attempted.
#[derive(Debug, thiserror::Error)]
pub enum BestEffortError {
    /// The draft has no acceptable document.
    #[error("the message was not encoded")]
    Encode(#[source] EncodeError),
    /// Nobody enabled best effort for the contract's destination.
    #[error("best-effort publication is disabled for destination {0}")]
    Disabled(LogicalDestinationId),
}

/// Sends drafts that may be lost.
#[derive(Clone)]
pub struct PublishBestEffort {
    /// Validates against the closed catalog.
    pub codec: Arc<dyn EnvelopeCodec>,
    /// The broker.
    pub publisher: Arc<dyn BestEffortPublicationPort>,
    /// Where best effort is enabled.
    pub enabled: Arc<BTreeSet<LogicalDestinationId>>,
    /// Told of every outcome.
    pub observer: Arc<dyn BestEffortObserver>,
    /// The process's monotonic clock.
    pub clock: Arc<dyn MonotonicClockPort>,
    /// What one attempt may take, the wait for a permit included.
    pub budget: Duration,
}

impl PublishBestEffort {
    /// One attempt, and what became of it. Nothing is stored, and nothing is sent again.
    ///
    /// # Errors
    /// [`BestEffortError`]; nothing was sent.
    pub async fn execute(
        &self,
        draft: &IntegrationEventDraft,
    ) -> Result<PublicationOutcome, BestEffortError> {
        let event = self.codec.encode(draft).map_err(BestEffortError::Encode)?;
        let identities = event.identities().clone();
        if !self.enabled.contains(&identities.destination) {
            return Err(BestEffortError::Disabled(identities.destination));
        }
        let message = BestEffortMessage {
            event: Arc::new(event),
            deadline: self.clock.now().plus(self.budget),
        };
        let outcome = self.publisher.publish_best_effort(&message).await;
        self.observer.observe(&BestEffortReport {
            event_id: identities.event_id,
            contract_id: identities.contract_id,
            destination: identities.destination,
            certainty: outcome.certainty(),
            failure: outcome.failure(),
        });
        Ok(outcome)
    }
}
