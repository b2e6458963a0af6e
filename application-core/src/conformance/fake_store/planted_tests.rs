//! Stores with one planted fault each, to show that the differential run finds it.
//!
//! Invariant: apart from its fault, a planted store is the fake.

use super::{FakeInbox, FakeOutbox, FakeStore, FakeTransactions, FakeWriteTransaction};
use crate::Cause;
use crate::conformance::outbox::differential::{Op, compare};
use crate::conformance::outbox::{
    ControlHarness, DeliveryRow, ObservationRow, OutboxHarness, WindowHarness,
};
use crate::ports::{
    BacklogError, ClaimError, ClaimFencePort, ClaimOutcome, ClaimRequest, FenceError, FenceOutcome,
    FenceScope, FindAttemptError, KnownRecord, OperatorAct, OutboxAttemptObservationPort,
    OutboxCapacityPort, OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort,
    OutboxRetentionPort, OutboxWindowPort, OutcomeRecord, PublicationAuthorityPort, ReapReport,
    ReapRequest, RecordError, RecordOutcome, RecordedAttempt, RenewOutcome, RenewRequest,
    RetentionError, TransactionResourcePort, UnknownBacklog,
};
use domain_core::delivery::{DeliveryState, DeliveryStateName, DispatchAuthority};
use domain_core::identity::{ClaimToken, EventId, PublicationAttemptId};
use domain_core::instant::DatabaseInstant;
use proptest::arbitrary::any;
use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::sync::Arc;
use std::time::Duration;

/// A fence that was raised fences nothing.
const FENCE: u8 = 0;
/// A lapsed claim records its outcome, as long as nobody reclaimed the row.
const LAPSED: u8 = 1;
/// Retention does not ask for a legal hold.
const LEGAL_HOLD: u8 = 2;
/// A renewal moves the row version and not the lease.
const RENEWAL: u8 = 3;
/// Reclaiming forgets to close the abandoned attempt.
const ABANDONED: u8 = 4;
/// A frozen store lets business writes in.
const FREEZE: u8 = 5;

/// The fake with one fault.
#[derive(Clone)]
struct Planted<const FAULT: u8>(FakeStore);

#[async_trait::async_trait]
impl<const FAULT: u8> OutboxDeliveryPort for Planted<FAULT> {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        if FAULT == ABANDONED {
            for delivery in self.0.state().deliveries.values_mut() {
                delivery.open_attempt = None;
            }
        }
        self.0.claim_next(request).await
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        if FAULT == LAPSED {
            let mut state = self.0.state();
            let later = state.now.plus(Duration::from_secs(1));
            if let Some(delivery) = state.deliveries.get_mut(&record.attempt.event_id)
                && let DeliveryState::Claimed(claim) = &mut delivery.state
            {
                claim.until = claim.until.max(later);
            }
        }
        self.0.record_outcome(record).await
    }

    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        let until = |store: &FakeStore| {
            let state = store.state();
            match &state.deliveries.get(&request.attempt.event_id)?.state {
                DeliveryState::Claimed(claim) => Some(claim.until),
                _ => None,
            }
        };
        let before = until(&self.0);
        let renewed = self.0.renew(request).await;
        if FAULT == RENEWAL
            && let Some(before) = before
            && let Some(delivery) = self.0.state().deliveries.get_mut(&request.attempt.event_id)
            && let DeliveryState::Claimed(claim) = &mut delivery.state
        {
            claim.until = before;
        }
        renewed
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        OutboxDeliveryPort::find_attempt(&self.0, token, attempt_id).await
    }

    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        self.0.count_unknown(known).await
    }
}

#[async_trait::async_trait]
impl<const FAULT: u8> ClaimFencePort for Planted<FAULT> {
    async fn raise(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        let outcome = self.0.raise(scope, act).await;
        if FAULT == FENCE {
            self.0.state().fences.remove(scope);
        }
        outcome
    }

    async fn lift(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        self.0.lift(scope, act).await
    }

    async fn standing(&self) -> Result<Vec<FenceScope>, FenceError> {
        self.0.standing().await
    }
}

#[async_trait::async_trait]
impl<const FAULT: u8> OutboxRetentionPort for Planted<FAULT> {
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, RetentionError> {
        if FAULT == LEGAL_HOLD {
            self.0.state().legal_holds.clear();
        }
        self.0.reap(request).await
    }

    async fn place_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        self.0.place_legal_hold(event_id, act).await
    }

    async fn lift_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        self.0.lift_legal_hold(event_id, act).await
    }
}

impl<const FAULT: u8> OutboxHarness for Planted<FAULT> {
    type Tx = FakeWriteTransaction;
    type Transactions = FakeTransactions;
    type Append = FakeOutbox;
    type Inbox = FakeInbox;

    const MAXIMUM_AGE: Duration = FakeStore::MAXIMUM_AGE;

    async fn fresh() -> Self {
        Self(FakeStore::fresh().await)
    }

    fn transactions(&self) -> Arc<FakeTransactions> {
        if FAULT == FREEZE {
            Arc::new(self.0.ungated_transactions())
        } else {
            Arc::new(self.0.transactions())
        }
    }

    fn outbox(&self) -> Arc<FakeOutbox> {
        OutboxHarness::outbox(&self.0)
    }

    fn inbox(&self) -> Arc<FakeInbox> {
        OutboxHarness::inbox(&self.0)
    }

    fn deliveries(&self) -> Arc<dyn OutboxDeliveryPort> {
        Arc::new(self.clone())
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

    async fn insert_business_row<'t>(
        tx: &'t mut FakeWriteTransaction,
        key: &'t str,
    ) -> Result<(), Cause> {
        FakeStore::insert_business_row(tx, key).await
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
        OutboxHarness::activate_epoch(&self.0, authority).await;
    }

    async fn force_state(&self, event: &EventId, state: DeliveryStateName) {
        self.0.force_state(event, state).await;
    }

    async fn pause(&self) {
        self.0.pause().await;
    }
}

impl<const FAULT: u8> WindowHarness for Planted<FAULT> {
    fn windows(&self) -> Arc<dyn OutboxWindowPort> {
        self.0.windows()
    }
}

impl<const FAULT: u8> ControlHarness for Planted<FAULT> {
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort> {
        self.0.dispositions()
    }

    fn fences(&self) -> Arc<dyn ClaimFencePort> {
        Arc::new(self.clone())
    }

    fn authority(&self) -> Arc<dyn PublicationAuthorityPort> {
        self.0.authority()
    }

    fn retention(&self) -> Arc<dyn OutboxRetentionPort> {
        Arc::new(self.clone())
    }

    fn capacity(&self) -> Arc<dyn OutboxCapacityPort> {
        self.0.capacity()
    }

    fn ungated_transactions(&self) -> Arc<FakeTransactions> {
        Arc::new(self.0.ungated_transactions())
    }

    async fn audit_rows(&self, event: &EventId) -> u64 {
        self.0.audit_rows(event).await
    }

    async fn authority_audit_rows(&self) -> u64 {
        self.0.authority_audit_rows().await
    }
}

/// The shrunk sequence that tells the planted store from the fake.
fn shrunk<const FAULT: u8>() -> Vec<Op> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let config = Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        TestRng::from_seed(RngAlgorithm::ChaCha, &[FAULT; 32]),
    );
    let outcome = runner.run(&vec(any::<(u8, u8, u8)>(), 1..60), |words| {
        let ops: Vec<Op> = words.into_iter().map(Op::decode).collect();
        runtime
            .block_on(compare::<FakeStore, Planted<FAULT>>(&ops))
            .map(drop)
            .map_err(|divergence| TestCaseError::fail(divergence.to_string()))
    });
    match outcome {
        Err(TestError::Fail(_, words)) => words.into_iter().map(Op::decode).collect(),
        other => panic!("the fault was not found: {other:?}"),
    }
}

#[test]
fn a_fence_that_fences_nothing_is_found() {
    let ops = shrunk::<FENCE>();
    assert!(ops.len() <= 3, "{ops:?}");
    assert!(
        ops.iter()
            .any(|op| matches!(op, Op::Fence { raise: true, .. }))
    );
}

#[test]
fn a_lapsed_claim_that_records_is_found() {
    let ops = shrunk::<LAPSED>();
    assert!(ops.len() <= 5, "{ops:?}");
    assert!(ops.iter().any(|op| matches!(op, Op::Lapse { .. })));
}

#[test]
fn a_legal_hold_that_keeps_nothing_is_found() {
    let ops = shrunk::<LEGAL_HOLD>();
    assert!(ops.len() <= 6, "{ops:?}");
    assert!(ops.iter().any(|op| matches!(op, Op::LegalHold { .. })));
}

#[test]
fn a_renewal_that_extends_nothing_is_found() {
    let ops = shrunk::<RENEWAL>();
    assert!(ops.len() <= 6, "{ops:?}");
}

#[test]
fn an_abandoned_attempt_that_stays_open_is_found() {
    let ops = shrunk::<ABANDONED>();
    assert!(ops.len() <= 5, "{ops:?}");
}

#[test]
fn a_freeze_that_lets_writers_in_is_found() {
    let ops = shrunk::<FREEZE>();
    assert_eq!(ops.len(), 2, "{ops:?}");
}
