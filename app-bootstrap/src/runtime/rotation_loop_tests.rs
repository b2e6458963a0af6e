//! What makes the loop rotate, and what it does after a rotation that fell back.

use super::*;
use crate::config::SecretReference;
use crate::runtime::{ProcessClock, ProcessTimer, StopSwitch};
use application_core::attempt_ledger::AttemptLedger;
use application_core::ports::{
    BacklogError, ClaimError, ClaimOutcome, ClaimRequest, DeliverySummary, DispositionCommand,
    DispositionError, DispositionOutcome, DrainFact, FindAttemptError, KnownRecord, LifecycleError,
    OperatorAct, OutboxCounts, OutboxDeliveryPort, OutboxDispositionPort, OutboxQueryPort,
    OutcomeRecord, PausedGeneration, ProducerLifecyclePort, ProducerMaterialPort, QueryError,
    RecordError, RecordOutcome, RecordedAttempt, RenewOutcome, RenewRequest, UnknownBacklog,
};
use application_core::rotation::{Material, RotationBoard, RotationView};
use application_core::usecase::{RotationPorts, RotationSettings};
use domain_core::identity::{
    ActReference, ClaimToken, EventId, OperatorId, ProducerGeneration, PublicationAttemptId,
    ReasonCode, ReasonText,
};
use domain_core::publication::RetryPolicy;
use std::sync::atomic::{AtomicU32, Ordering};

/// A producer that fails as often as it is told to, with a store that nobody asks.
#[derive(Default)]
struct Fake {
    resolves: AtomicU32,
    refusals: AtomicU32,
}

fn id() -> ProducerGeneration {
    ProducerGeneration::parse("g").unwrap()
}

#[async_trait::async_trait]
impl ProducerMaterialPort for Fake {
    async fn resolve(&self) -> Result<(), LifecycleError> {
        self.resolves.fetch_add(1, Ordering::SeqCst);
        let left = self.refusals.load(Ordering::SeqCst);
        if left == 0 {
            return Ok(());
        }
        self.refusals.store(left - 1, Ordering::SeqCst);
        Err(LifecycleError::Failed {
            class: FailureClass::AuthenticationFailed,
            source: "planted".into(),
        })
    }
}

#[async_trait::async_trait]
impl ProducerLifecyclePort for Fake {
    async fn pause(&self) -> Result<PausedGeneration, LifecycleError> {
        Ok(PausedGeneration::default())
    }
    async fn drain(&self, _: Duration) -> Result<DrainFact, LifecycleError> {
        Ok(DrainFact::default())
    }
    async fn abandon(&self, _: Duration) -> Result<DrainFact, LifecycleError> {
        Ok(DrainFact::default())
    }
    async fn close(&self, _: Duration) -> Result<bool, LifecycleError> {
        Ok(true)
    }
    async fn create(&self, _: Material) -> Result<ProducerGeneration, LifecycleError> {
        Ok(id())
    }
    async fn attest(&self) -> Result<(), LifecycleError> {
        Ok(())
    }
    async fn resume(&self) -> Result<ProducerGeneration, LifecycleError> {
        Ok(id())
    }
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for Fake {
    async fn claim_next(&self, _: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        panic!("nothing is open")
    }
    async fn record_outcome(&self, _: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        panic!("nothing is open")
    }
    async fn renew(&self, _: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        panic!("nothing is open")
    }
    async fn find_attempt(
        &self,
        _: &ClaimToken,
        _: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        panic!("nothing is open")
    }
    async fn count_unknown(&self, _: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        panic!("nothing is open")
    }
}

#[async_trait::async_trait]
impl OutboxDispositionPort for Fake {
    async fn apply(&self, _: &DispositionCommand) -> Result<DispositionOutcome, DispositionError> {
        panic!("nothing is open")
    }
}

#[async_trait::async_trait]
impl OutboxQueryPort for Fake {
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

struct Scene {
    fake: Arc<Fake>,
    request: RotationRequest,
    board: RotationBoard,
    switch: StopSwitch,
    running: tokio::task::JoinHandle<()>,
}

fn start(secrets: Option<SecretWatch>, not_started: Option<FailureClass>, refusals: u32) -> Scene {
    let fake = Arc::new(Fake::default());
    fake.refusals.store(refusals, Ordering::SeqCst);
    let rotate = Arc::new(RotateProducer::new(
        RotationPorts {
            lifecycle: fake.clone(),
            material: fake.clone(),
            deliveries: fake.clone(),
            dispositions: fake.clone(),
            query: fake.clone(),
            clock: Arc::new(ProcessClock),
            timer: Arc::new(ProcessTimer),
        },
        RotationSettings {
            drain_limit: Duration::ZERO,
            record_limit: Duration::ZERO,
            close_limit: Duration::ZERO,
            previous_limit: Duration::from_secs(60),
            minimum_delay: Duration::from_millis(1),
            maximum_delay: Duration::from_millis(1),
            retry: RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(1), 1).unwrap(),
            act: OperatorAct {
                operator: OperatorId::parse("rotation").unwrap(),
                reason_code: ReasonCode::parse("ROTATION").unwrap(),
                reason: ReasonText::parse("a test").unwrap(),
                reference: ActReference::parse("rotation").unwrap(),
            },
        },
        Arc::new(AttemptLedger::new(1)),
    ));
    let (request, board) = (RotationRequest::default(), rotate.board());
    let looped = RotationLoop {
        rotate,
        request: request.clone(),
        secrets,
        not_started,
        retry_after: Duration::from_millis(5),
    };
    let (switch, stop) = StopSwitch::new();
    Scene {
        fake,
        request,
        board,
        switch,
        running: tokio::spawn(looped.run(std::future::pending, stop)),
    }
}

impl Scene {
    async fn until(&self, what: &str, wanted: impl Fn(&RotationView) -> bool) -> RotationView {
        let mut tick = tokio::time::interval(Duration::from_millis(2));
        for _ in 0..2_500 {
            tick.tick().await;
            let view = self.board.view();
            if wanted(&view) {
                return view;
            }
        }
        panic!("never: {what}: {:?}", self.board.view());
    }

    async fn stop(self) {
        self.switch.stop();
        self.running.await.unwrap();
    }
}

#[tokio::test]
async fn what_is_asked_for_happens_once() {
    let scene = start(None, None, 0);
    scene.request.ask();
    let view = scene.until("renewed", |view| view.renewed == 1).await;
    assert_eq!(view.cause, Some(RotationCause::Asked));
    assert_eq!(scene.fake.resolves.load(Ordering::SeqCst), 1);
    scene.stop().await;
}

#[tokio::test]
async fn another_secret_makes_another_generation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "one").unwrap();
    let reference = SecretReference::parse(&format!("secret://file{}", file.display())).unwrap();
    let watch = SecretWatch::start(vec![reference], Duration::from_millis(5));
    let scene = start(watch, None, 0);
    for (number, secret) in [(1, "two"), (2, "three")] {
        std::fs::write(&file, secret).unwrap();
        let view = scene.until("renewed", |view| view.renewed == number).await;
        assert_eq!(view.cause, Some(RotationCause::SecretChanged));
    }
    scene.stop().await;
}

/// New material that does not work is tried again while the previous one goes on.
#[tokio::test]
async fn what_fell_back_is_tried_again() {
    let scene = start(None, None, 3);
    scene.request.ask();
    let view = scene.until("renewed", |view| view.renewed == 1).await;
    assert_eq!(view.fell_back, 3);
    scene.stop().await;
}

#[tokio::test]
async fn a_producer_that_was_not_started_is_started() {
    let scene = start(None, Some(FailureClass::BrokerUnavailable), 2);
    let view = scene.until("started", |view| view.renewed == 1).await;
    assert_eq!(view.fell_back, 0);
    let class = FailureClass::BrokerUnavailable;
    assert_eq!(view.cause, Some(RotationCause::NotStarted(class)));
    scene.stop().await;
}
