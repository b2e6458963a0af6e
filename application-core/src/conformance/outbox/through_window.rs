//! The suite once more, with every claim and outcome going through the window card's port.
//!
//! Invariant: what holds for a record claimed alone holds for one claimed in a window, because it
//! is the same cases that say so.

use super::{ControlHarness, DeliveryRow, ObservationRow, OutboxHarness};
use crate::Cause;
use crate::ports::{
    BacklogError, ClaimError, ClaimFencePort, ClaimOutcome, ClaimRequest, FindAttemptError,
    FreshAttempt, KnownRecord, OutboxAttemptObservationPort, OutboxCapacityPort,
    OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort, OutboxRetentionPort,
    OutboxWindowPort, OutcomeRecord, PartitionShare, PublicationAuthorityPort, RecordError,
    RecordOutcome, RecordedAttempt, RenewOutcome, RenewRequest, SpentDelivery,
    TransactionResourcePort, UnknownBacklog, WindowRequest,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::{ClaimToken, EventId, PublicationAttemptId};
use domain_core::instant::DatabaseInstant;
use std::sync::Arc;
use std::time::Duration;

/// A store that has the window card's port.
pub trait WindowHarness: OutboxHarness {
    /// Tx B and Tx C of a window.
    fn windows(&self) -> Arc<dyn OutboxWindowPort>;
}

/// Claims and records by windows of one.
pub struct ClaimThroughWindow {
    /// Windows.
    pub windows: Arc<dyn OutboxWindowPort>,
    /// Everything else.
    pub deliveries: Arc<dyn OutboxDeliveryPort>,
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for ClaimThroughWindow {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        let mut claim = self
            .windows
            .claim_window(&WindowRequest {
                owner: request.owner.clone(),
                attempts: vec![FreshAttempt {
                    token: request.token,
                    attempt_id: request.attempt_id.clone(),
                }],
                producer_generation: request.producer_generation.clone(),
                lease: request.lease,
                attempt_budget: request.attempt_budget,
                maximum_attempts: request.maximum_attempts,
                known: Arc::clone(&request.known),
                share: PartitionShare::WHOLE,
            })
            .await?;
        assert!(
            claim.claimed.len() + claim.spent.len() <= 1,
            "a window of one changed more than one row"
        );
        if let Some(claimed) = claim.claimed.pop() {
            return Ok(ClaimOutcome::Claimed(Box::new(claimed)));
        }
        Ok(match claim.spent.pop() {
            Some(SpentDelivery {
                event_id,
                generation,
                reason,
            }) => ClaimOutcome::BudgetSpent {
                event_id,
                generation,
                reason,
            },
            None if claim.unfinished => ClaimOutcome::Unfinished,
            None => ClaimOutcome::Nothing,
        })
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        let outcomes = self
            .windows
            .record_window(std::slice::from_ref(record))
            .await?;
        assert_eq!(outcomes.len(), 1, "each record has its answer");
        Ok(outcomes[0])
    }

    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        self.deliveries.renew(request).await
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        self.deliveries.find_attempt(token, attempt_id).await
    }

    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        self.deliveries.count_unknown(known).await
    }
}

/// The harness of a store, its deliveries reached through windows.
pub struct ThroughWindow<H>(H);

impl<H: WindowHarness> OutboxHarness for ThroughWindow<H> {
    type Tx = H::Tx;
    type Transactions = H::Transactions;
    type Append = H::Append;
    type Inbox = H::Inbox;

    const MAXIMUM_AGE: Duration = H::MAXIMUM_AGE;

    async fn fresh() -> Self {
        Self(H::fresh().await)
    }

    fn transactions(&self) -> Arc<Self::Transactions> {
        self.0.transactions()
    }

    fn outbox(&self) -> Arc<Self::Append> {
        self.0.outbox()
    }

    fn inbox(&self) -> Arc<Self::Inbox> {
        self.0.inbox()
    }

    fn deliveries(&self) -> Arc<dyn OutboxDeliveryPort> {
        Arc::new(ClaimThroughWindow {
            windows: self.0.windows(),
            deliveries: self.0.deliveries(),
        })
    }

    fn observations(&self) -> Arc<dyn OutboxAttemptObservationPort> {
        self.0.observations()
    }

    fn query(&self) -> Arc<dyn OutboxQueryPort> {
        self.0.query()
    }

    fn resources(&self) -> Vec<Arc<dyn TransactionResourcePort>> {
        self.0.resources()
    }

    async fn insert_business_row<'t>(tx: &'t mut Self::Tx, key: &'t str) -> Result<(), Cause> {
        H::insert_business_row(tx, key).await
    }

    async fn business_rows(&self) -> Vec<String> {
        self.0.business_rows().await
    }

    async fn database_now(&self) -> DatabaseInstant {
        self.0.database_now().await
    }

    async fn delivery(&self, event: &EventId) -> Option<DeliveryRow> {
        self.0.delivery(event).await
    }

    async fn journal(&self, event: &EventId) -> Vec<ObservationRow> {
        self.0.journal(event).await
    }

    async fn activate_epoch(&self, authority: Option<DispatchAuthority>) {
        self.0.activate_epoch(authority).await;
    }

    async fn force_state(&self, event: &EventId, state: DeliveryStateName) {
        self.0.force_state(event, state).await;
    }

    async fn pause(&self) {
        self.0.pause().await;
    }
}

impl<H: WindowHarness> WindowHarness for ThroughWindow<H> {
    fn windows(&self) -> Arc<dyn OutboxWindowPort> {
        self.0.windows()
    }
}

impl<H: WindowHarness + ControlHarness> ControlHarness for ThroughWindow<H> {
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort> {
        self.0.dispositions()
    }

    fn fences(&self) -> Arc<dyn ClaimFencePort> {
        self.0.fences()
    }

    fn authority(&self) -> Arc<dyn PublicationAuthorityPort> {
        self.0.authority()
    }

    fn retention(&self) -> Arc<dyn OutboxRetentionPort> {
        self.0.retention()
    }

    fn capacity(&self) -> Arc<dyn OutboxCapacityPort> {
        self.0.capacity()
    }

    fn ungated_transactions(&self) -> Arc<Self::Transactions> {
        self.0.ungated_transactions()
    }

    async fn audit_rows(&self, event: &EventId) -> u64 {
        self.0.audit_rows(event).await
    }

    async fn authority_audit_rows(&self) -> u64 {
        self.0.authority_audit_rows().await
    }
}
