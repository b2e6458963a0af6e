//! The fake store under the suite.
//!
//! Invariant: a pause moves the fake's clock and nothing else, so no case waits for real time.

use super::state::{Delivery, count};
use super::{FakeInbox, FakeOutbox, FakeStore, FakeTransactions, FakeWriteTransaction};
use crate::Cause;
use crate::conformance::outbox::{
    ControlHarness, DeliveryRow, ObservationRow, OutboxHarness, WindowHarness,
};
use crate::ports::{
    ClaimFencePort, OutboxAttemptObservationPort, OutboxCapacityPort, OutboxDeliveryPort,
    OutboxDispositionPort, OutboxQueryPort, OutboxRetentionPort, OutboxWindowPort,
    PublicationAuthorityPort, TransactionResourcePort,
};
use domain_core::delivery::{DeliveryState, DeliveryStateName, DispatchAuthority};
use domain_core::identity::EventId;
use domain_core::instant::DatabaseInstant;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The key of a business row is taken.
#[derive(Debug, thiserror::Error)]
#[error("the key is taken")]
struct KeyTaken;

impl OutboxHarness for FakeStore {
    type Tx = FakeWriteTransaction;
    type Transactions = FakeTransactions;
    type Append = FakeOutbox;
    type Inbox = FakeInbox;

    const MAXIMUM_AGE: Duration = Duration::from_secs(2 * 3600);

    async fn fresh() -> Self {
        Self::new(Self::MAXIMUM_AGE)
    }

    fn transactions(&self) -> Arc<FakeTransactions> {
        Arc::new(self.transactions())
    }

    fn outbox(&self) -> Arc<FakeOutbox> {
        Arc::new(self.outbox())
    }

    fn inbox(&self) -> Arc<FakeInbox> {
        Arc::new(self.inbox())
    }

    fn deliveries(&self) -> Arc<dyn OutboxDeliveryPort> {
        Arc::new(self.clone())
    }

    fn observations(&self) -> Arc<dyn OutboxAttemptObservationPort> {
        Arc::new(self.clone())
    }

    fn query(&self) -> Arc<dyn OutboxQueryPort> {
        Arc::new(self.clone())
    }

    fn resources(&self) -> Vec<Arc<dyn TransactionResourcePort>> {
        vec![
            Arc::new(self.clone()),
            Arc::new(self.transactions()),
            Arc::new(self.outbox()),
            Arc::new(self.inbox()),
        ]
    }

    async fn insert_business_row<'t>(
        tx: &'t mut FakeWriteTransaction,
        key: &'t str,
    ) -> Result<(), Cause> {
        if tx.insert_business_row(key) {
            Ok(())
        } else {
            Err(Box::new(KeyTaken))
        }
    }

    async fn business_rows(&self) -> Vec<String> {
        self.state().business.iter().cloned().collect()
    }

    async fn database_now(&self) -> DatabaseInstant {
        self.now()
    }

    async fn delivery(&self, event: &EventId) -> Option<DeliveryRow> {
        self.state().deliveries.get(event).map(row)
    }

    async fn journal(&self, event: &EventId) -> Vec<ObservationRow> {
        let mut rows = self.state().journal.get(event).cloned().unwrap_or_default();
        rows.sort_by_key(|row| (row.generation, row.sequence));
        rows
    }

    async fn activate_epoch(&self, authority: Option<DispatchAuthority>) {
        let mut state = self.state();
        state.retire_active();
        if let Some(authority) = authority {
            let prepared = state.prepare_epoch(authority);
            state.activate(prepared.epoch);
        }
    }

    async fn force_state(&self, event: &EventId, forced: DeliveryStateName) {
        let mut state = self.state();
        let now = state.now;
        let delivery = state.deliveries.get_mut(event).expect("delivery");
        delivery.state = without_claim(forced);
        delivery.open_attempt = None;
        delivery.row_version += 1;
        delivery.ended_at = (forced != DeliveryStateName::Ready).then_some(now);
    }

    async fn pause(&self) {
        self.advance(Duration::from_millis(3));
        // Other futures of the case get their turn.
        let mut yielded = false;
        poll_fn(|context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

fn without_claim(name: DeliveryStateName) -> DeliveryState {
    match name {
        DeliveryStateName::Ready => DeliveryState::Ready,
        DeliveryStateName::DeliveryRecorded => DeliveryState::DeliveryRecorded,
        DeliveryStateName::Exhausted => DeliveryState::Exhausted,
        DeliveryStateName::Hold => DeliveryState::Hold,
        DeliveryStateName::Skipped => DeliveryState::Skipped,
        DeliveryStateName::Compensated => DeliveryState::Compensated,
        DeliveryStateName::LegacyRecordedUnverified => DeliveryState::LegacyRecordedUnverified,
        DeliveryStateName::LegacyAcceptedUnverified => DeliveryState::LegacyAcceptedUnverified,
        DeliveryStateName::Claimed | DeliveryStateName::RetryWait => {
            panic!("{} needs more than a name", name.as_str())
        }
    }
}

fn row(delivery: &Delivery) -> DeliveryRow {
    DeliveryRow {
        generation: delivery.generation,
        state: delivery.state.name(),
        claim_count: delivery.claim_count,
        attempt_count: delivery.attempt_count,
        first_attempt_at: delivery.first_attempt_at,
        next_attempt_at: match &delivery.state {
            DeliveryState::RetryWait { due } => Some(*due),
            _ => None,
        },
        claim_owner: delivery.owner().cloned(),
        claim_until: match &delivery.state {
            DeliveryState::Claimed(claim) => Some(claim.until),
            _ => None,
        },
        last_certainty: delivery.last_certainty,
        last_failure_class: delivery.last_failure.map(|(class, _)| class),
        last_failure_stage: delivery.last_failure.map(|(_, stage)| stage),
        provider_generation: delivery.provider_generation.clone(),
        record_reference: delivery
            .record_reference
            .as_ref()
            .map(|reference| reference.as_str().to_owned()),
        delivery_recorded_at: delivery.recorded_at,
        row_version: delivery.row_version,
        created_at: delivery.created_at,
        automatic_attempt_deadline: delivery.deadline,
    }
}

impl WindowHarness for FakeStore {
    fn windows(&self) -> Arc<dyn OutboxWindowPort> {
        Arc::new(self.clone())
    }
}

impl ControlHarness for FakeStore {
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort> {
        Arc::new(self.clone())
    }

    fn fences(&self) -> Arc<dyn ClaimFencePort> {
        Arc::new(self.clone())
    }

    fn authority(&self) -> Arc<dyn PublicationAuthorityPort> {
        Arc::new(self.clone())
    }

    fn retention(&self) -> Arc<dyn OutboxRetentionPort> {
        Arc::new(self.clone())
    }

    fn capacity(&self) -> Arc<dyn OutboxCapacityPort> {
        Arc::new(self.clone())
    }

    fn ungated_transactions(&self) -> Arc<FakeTransactions> {
        Arc::new(self.ungated_transactions())
    }

    async fn audit_rows(&self, event: &EventId) -> u64 {
        let state = self.state();
        count(state.dispositions.get(event).map_or(0, Vec::len))
    }

    async fn authority_audit_rows(&self) -> u64 {
        count(self.state().authority_audit.len())
    }
}
