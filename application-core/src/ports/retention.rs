//! Removing what is resolved and old enough, and what may not be removed.
//!
//! Invariant: an event goes only with everything that tells of it, and only when every condition
//! of requirement 004 §19.6 holds for it in the same transaction.

use super::OperatorAct;
use crate::Cause;
use domain_core::identity::EventId;
use std::time::Duration;

/// What one batch may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReapRequest {
    /// How long a resolved event's audit is kept, from the end of its CURRENT generation.
    pub audit_retention: Duration,
    /// How long an event is kept for replay, from its creation.
    pub replay_horizon: Duration,
    /// Events to remove at most.
    pub limit: u32,
}

/// What one batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReapReport {
    /// Events removed, with their deliveries, observations and audit.
    pub removed: u64,
    /// Whether the batch looked at everything there is to look at; if not, ask again.
    pub finished: bool,
}

/// Why a batch has no report.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// There is no such event, or it was removed before the hold was there. Nothing was changed.
    #[error("there is no such event to keep")]
    NoEvent,
    /// Nothing was changed.
    #[error("retention cannot be applied")]
    Unavailable(#[source] Cause),
    /// It may have been done; doing it again is harmless.
    #[error("whether retention was applied is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// Applies retention, as the store's maintenance role.
#[async_trait::async_trait]
pub trait OutboxRetentionPort: Send + Sync {
    /// Removes one bounded batch in one transaction, skipping rows that others hold.
    ///
    /// # Errors
    /// [`RetentionError`].
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, RetentionError>;

    /// Keeps an event whatever its age. Tells whether it was not held before.
    ///
    /// # Errors
    /// [`RetentionError`]; MUST be `NoEvent` when the event is not in this outbox.
    async fn place_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError>;

    /// Ends a legal hold. Tells whether there was one.
    ///
    /// # Errors
    /// [`RetentionError`].
    async fn lift_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError>;
}
