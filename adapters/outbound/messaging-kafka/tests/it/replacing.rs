//! The application's rotation around a producer of a test.
//!
//! Invariant: the rotation is the application's own use case; only the store is a small one, which keeps
//! what it is told.

use crate::fixture::Fixture;
use application_core::attempt_ledger::AttemptLedger;
use application_core::ports::{
    BacklogError, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery, DeliverySummary,
    DispositionCommand, DispositionConflict, DispositionError, DispositionOutcome,
    FindAttemptError, KnownRecord, MonotonicClockPort, OperatorAct, OutboxCounts,
    OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort, OutcomeRecord, QueryError,
    RecordError, RecordOutcome, RecordedAttempt, RenewOutcome, RenewRequest, TimerPort,
    UnknownBacklog,
};
use application_core::rotation::RotationCause;
use application_core::usecase::{RotateProducer, RotationPorts, RotationSettings};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{
    ActReference, ClaimToken, EventId, OperatorId, PublicationAttemptId, ReasonCode, ReasonText,
};
use domain_core::publication::RetryPolicy;
use outbound_messaging_kafka::ProducerReadiness;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) struct Timer;

#[async_trait::async_trait]
impl TimerPort for Timer {
    async fn pause(&self, duration: Duration) {
        // Only the time can end this.
        let _ = tokio::time::timeout(duration, std::future::pending::<()>()).await;
    }
}

/// Keeps claims and outcomes; can be away.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) claimed: Mutex<BTreeMap<PublicationAttemptId, ClaimedDelivery>>,
    pub(crate) recorded: Mutex<Vec<OutcomeRecord>>,
    pub(crate) away: AtomicBool,
}

impl Store {
    pub(crate) fn recorded(&self, id: &str) -> Vec<OutcomeRecord> {
        let recorded = self.recorded.lock().expect("records");
        let of = |record: &&OutcomeRecord| record.attempt.event_id.as_str() == id;
        recorded.iter().filter(of).cloned().collect()
    }
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for Store {
    /// Claims what was put under this attempt id beforehand.
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        let claimed = self.claimed.lock().expect("claims");
        let found = claimed.get(&request.attempt_id).cloned();
        Ok(ClaimOutcome::Claimed(Box::new(found.expect("put before"))))
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(RecordError::Unavailable("away".into()));
        }
        let open = self
            .claimed
            .lock()
            .expect("claims")
            .remove(&record.attempt.attempt_id);
        if open.is_none() {
            return Ok(RecordOutcome::Stale);
        }
        self.recorded.lock().expect("records").push(record.clone());
        Ok(RecordOutcome::Recorded(record.decision.state()))
    }

    async fn renew(&self, _: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        panic!("nobody renews")
    }

    async fn find_attempt(
        &self,
        _: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(FindAttemptError::Unavailable("away".into()));
        }
        let claimed = self.claimed.lock().expect("claims");
        Ok(match claimed.get(attempt_id) {
            Some(claimed) => RecordedAttempt::Open(Box::new(claimed.clone())),
            None => RecordedAttempt::Closed(DeliveryStateName::DeliveryRecorded),
        })
    }

    async fn count_unknown(&self, _: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        panic!("nobody counts")
    }
}

#[async_trait::async_trait]
impl OutboxDispositionPort for Store {
    async fn apply(&self, _: &DispositionCommand) -> Result<DispositionOutcome, DispositionError> {
        Ok(DispositionOutcome::Conflict(
            DispositionConflict::NoDelivery,
        ))
    }
}

#[async_trait::async_trait]
impl OutboxQueryPort for Store {
    async fn counts(&self) -> Result<OutboxCounts, QueryError> {
        panic!("nobody counts")
    }

    async fn find_delivery(&self, _: &EventId) -> Result<Option<DeliverySummary>, QueryError> {
        panic!("no claim lapses here")
    }

    async fn deliveries_after(
        &self,
        _: Option<&EventId>,
        _: u32,
    ) -> Result<Vec<DeliverySummary>, QueryError> {
        panic!("nobody lists")
    }
}

pub(crate) fn retry() -> RetryPolicy {
    RetryPolicy::new(Duration::from_millis(1), Duration::from_millis(1), 1_000).expect("policy")
}

pub(crate) fn rotation(
    fixture: &Fixture,
    store: &Arc<Store>,
    ledger: &Arc<AttemptLedger>,
    drain_limit: Duration,
) -> Arc<RotateProducer> {
    let ports = RotationPorts {
        lifecycle: fixture.producer.clone(),
        material: fixture.producer.clone(),
        deliveries: store.clone(),
        dispositions: store.clone(),
        query: store.clone(),
        clock: Arc::clone(&fixture.clock) as Arc<dyn MonotonicClockPort>,
        timer: Arc::new(Timer),
    };
    let settings = RotationSettings {
        drain_limit,
        record_limit: Duration::from_millis(500),
        close_limit: Duration::from_secs(10),
        previous_limit: Duration::from_secs(60),
        minimum_delay: Duration::from_millis(10),
        maximum_delay: Duration::from_millis(200),
        retry: retry(),
        act: OperatorAct {
            operator: OperatorId::parse("producer-rotation").expect("valid"),
            reason_code: ReasonCode::parse("PRODUCER_ROTATION").expect("valid"),
            reason: ReasonText::parse("a test").expect("valid"),
            reference: ActReference::parse("rotation").expect("valid"),
        },
    };
    Arc::new(RotateProducer::new(ports, settings, Arc::clone(ledger)))
}

/// Watches the brokers and replaces every generation that ends, or makes the first one that could not be
/// started, until the producer is shut down.
pub(crate) fn supervised(fixture: &Fixture) -> JoinHandle<()> {
    let ledger = Arc::new(AttemptLedger::new(100));
    let rotation = rotation(
        fixture,
        &Arc::default(),
        &ledger,
        Duration::from_millis(100),
    );
    let producer = Arc::clone(&fixture.producer);
    let not_started = match *producer.readiness().borrow() {
        ProducerReadiness::Recovering(class) if producer.usage().is_none() => Some(class),
        _ => None,
    };
    tokio::spawn(async move {
        let replacing = async {
            if let Some(class) = not_started {
                rotation.execute(RotationCause::NotStarted(class)).await;
            }
            loop {
                let class = producer.ended().await;
                let cause = RotationCause::GenerationEnded(class);
                rotation.execute(cause).await;
            }
        };
        tokio::select! {
            () = producer.supervise() => {}
            () = replacing => {}
        }
    })
}
