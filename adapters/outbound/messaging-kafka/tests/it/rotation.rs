//! Generations replaced on a real broker: what is under way, what is given up, and who sends when.
//!
//! Invariant: the rotation is the application's own use case; only the store is a small one, which keeps
//! what it is told.

use crate::broker::OwnBroker;
use crate::fixture::{Fixture, destination, event, eventually, settings};
use crate::proxy::Answers;
use crate::replacing::{Store, Timer, retry, rotation};
use crate::topic::{Topic, headers};
use application_core::attempt_ledger::{AttemptLedger, LedgeredDeliveries};
use application_core::ports::{
    Admission, AdmissionRefusal, ClaimRequest, ClaimedDelivery,
    LatePublicationObservationSource as _, OutboxDeliveryPort, OutboxMessagePublishPort as _,
    OutcomeRecord, PublicationAdmissionPort as _, TimerPort,
};
use application_core::rotation::{RotationCause, RotationEnd, RotationStep};
use application_core::usecase::RotateProducer;
use domain_core::identity::WorkerId;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, FailureStage, PublicationOutcome, RelayDecision,
};
use outbound_messaging_kafka::ProducerReadiness;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A producer with the application's rotation around it.
struct Scene {
    fixture: Arc<Fixture>,
    store: Arc<Store>,
    deliveries: LedgeredDeliveries,
    rotation: Arc<RotateProducer>,
}

impl Scene {
    async fn start(topic: &Topic, drain_limit: Duration) -> Self {
        let mut settings = settings(&topic.bootstrap);
        settings.admission_timeout = Duration::from_millis(100);
        let fixture = Arc::new(Fixture::build(settings, destination(&topic.name, 1)));
        fixture.producer.start().await.expect("start");
        let (store, ledger) = (Arc::<Store>::default(), Arc::new(AttemptLedger::new(100)));
        let deliveries = LedgeredDeliveries::new(store.clone(), Arc::clone(&ledger));
        Self {
            rotation: rotation(&fixture, &store, &ledger, drain_limit),
            fixture,
            store,
            deliveries,
        }
    }

    /// One record as a relay sends it: permit, claim, send, Tx C until it is done. `None` when there
    /// was no permit.
    async fn relay(
        &self,
        id: &str,
        scope: &str,
        ordering_required: bool,
    ) -> Option<PublicationOutcome> {
        let permit = match self.fixture.publisher.admit().await {
            Admission::Granted(permit) => permit,
            Admission::Refused(AdmissionRefusal::Closing) => panic!("nobody stops"),
            Admission::Refused(_) => return None,
        };
        let mut sent = event(id, scope, b"{}".to_vec());
        sent.ordering_required = ordering_required;
        let request = self.fixture.request(sent, LIMIT);
        let owner = WorkerId::parse("w-1").expect("valid");
        self.store.claimed.lock().expect("claims").insert(
            request.attempt.attempt_id.clone(),
            ClaimedDelivery {
                attempt: request.attempt.clone(),
                owner: owner.clone(),
                event: Arc::clone(&request.event),
                claim_until: DatabaseInstant::from_epoch_micros(1),
                claim_count: 1,
                attempt_count: 1,
            },
        );
        let claim = ClaimRequest {
            owner: owner.clone(),
            token: request.attempt.claim_token,
            attempt_id: request.attempt.attempt_id.clone(),
            producer_generation: permit.generation().clone(),
            lease: LIMIT,
            attempt_budget: LIMIT,
            maximum_attempts: 9,
            known: Arc::from([]),
        };
        self.deliveries.claim_next(&claim).await.expect("claimed");
        let outcome = self.fixture.publisher.publish(&request).await;
        let record = OutcomeRecord {
            attempt: request.attempt.clone(),
            owner,
            producer_generation: permit.generation().clone(),
            binding_revision: request.event.binding_revision.clone(),
            outcome: outcome.clone(),
            decision: domain_core::publication::decide(
                &outcome,
                domain_core::publication::AttemptBudget { used: 1 },
                &retry(),
                0,
            ),
        };
        // As the relay does, until the lease lapses.
        for _ in 0..20 {
            if self.deliveries.record_outcome(&record).await.is_ok() {
                break;
            }
            Timer.pause(Duration::from_millis(20)).await;
        }
        Some(outcome)
    }
}

/// Twelve scopes in order, rotated again and again: every event is there, none is held, and each scope
/// is in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_under_load_loses_nothing_and_keeps_order() {
    let topic = Topic::create(1, &[]).await;
    let scene = Arc::new(Scene::start(&topic, Duration::from_secs(10)).await);
    let ended = Arc::new(AtomicBool::new(false));
    let mut workers = tokio::task::JoinSet::new();
    for scope in 0..12 {
        let (scene, ended) = (Arc::clone(&scene), Arc::clone(&ended));
        workers.spawn(async move {
            let mut number = 0_u32;
            while !ended.load(Ordering::SeqCst) {
                let id = format!("s{scope}-{number}");
                match scene.relay(&id, &format!("w-{scope}"), true).await {
                    Some(PublicationOutcome::Acknowledged(_)) => number += 1,
                    // Not sent: the same event again.
                    None | Some(PublicationOutcome::Rejected(_)) => tokio::task::yield_now().await,
                    other => panic!("{id}: {other:?}"),
                }
            }
            number
        });
    }
    let mut generations = BTreeSet::new();
    for number in 1..=6 {
        let before = scene.store.recorded.lock().expect("records").len();
        eventually("records between rotations", || {
            (scene.store.recorded.lock().expect("records").len() > before + 50).then_some(())
        })
        .await;
        let end = scene.rotation.execute(RotationCause::Asked).await;
        assert_eq!(end, RotationEnd::Renewed);
        let view = scene.rotation.board().view();
        assert_eq!((view.renewed, view.abandoned), (number, 0));
        generations.insert(view.generation.expect("one").as_str().to_owned());
    }
    ended.store(true, Ordering::SeqCst);
    let counts = workers.join_all().await;
    assert_eq!(generations.len(), 6);
    let sent: usize = counts.iter().map(|count| *count as usize).sum();
    let records = topic.read_back(1, sent).await;
    let ids: Vec<String> = records
        .iter()
        .map(|record| headers(record)[0].1.clone())
        .collect();
    // Every acknowledged event once, and each scope in order.
    assert_eq!(ids.len(), sent);
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    for id in &ids {
        let (scope, number) = id.split_once('-').expect("an id of ours");
        let expected = next.entry(scope.to_owned()).or_default();
        assert_eq!(number.parse::<u32>().expect("a number"), *expected, "{id}");
        *expected += 1;
    }
    let steps = scene.rotation.board().view().steps;
    for step in [
        RotationStep::Pausing,
        RotationStep::Draining,
        RotationStep::Recording,
        RotationStep::Closing,
        RotationStep::Resolving,
    ] {
        assert!(steps.contains(&step), "{step:?} is not shown: {steps:?}");
    }
    scene.fixture.producer.shut_down().await;
}

/// The broker's answers are held: what does not end in the drain is given up, recorded as unknown and
/// held where its scope waits for it; the old generation never sends again, and the store's absence
/// keeps the barrier shut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_drain_leaves_is_recorded_before_anything_is_sent() {
    let broker = OwnBroker::start().await;
    let topic = Topic::create_on(&broker.bootstrap(), 1, &[]).await;
    let scene = Arc::new(Scene::start(&topic, Duration::from_millis(300)).await);
    let first = scene.relay("first", "w", true).await.expect("a permit");
    let generation = first
        .receipt()
        .expect("acknowledged")
        .producer_generation
        .clone();
    let before = broker.proxy.held_bytes();
    broker.proxy.set(Answers::Hold);
    let sending = |id: &'static str, ordering_required| {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.relay(id, id, ordering_required).await })
    };
    let (ordered, tolerant) = (sending("ordered", true), sending("tolerant", false));
    eventually("held answers and two records in the client", || {
        let records = scene.fixture.producer.usage()?.records;
        (records == 2 && broker.proxy.held_bytes() > before).then_some(())
    })
    .await;
    scene.store.away.store(true, Ordering::SeqCst);
    let rotating = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.rotation.execute(RotationCause::SecretChanged).await })
    };
    for sent in [ordered, tolerant] {
        let outcome = sent.await.expect("no panic").expect("a permit");
        let failure = outcome.failure().expect("a failure");
        assert_eq!(outcome.certainty(), AcceptanceCertainty::Indeterminate);
        assert_eq!(
            (failure.stage, failure.class),
            (FailureStage::Shutdown, FailureClass::ClientClosed)
        );
    }
    // Both gave their Tx C up and their permits back; the broker is there, and still nothing resumes.
    broker.proxy.set(Answers::Pass);
    eventually("the barrier", || {
        let view = scene.rotation.board().view();
        matches!(view.step, Some(RotationStep::Barrier(_))).then_some(())
    })
    .await;
    assert_eq!(scene.rotation.board().view().open_attempts, 2);
    assert!(scene.relay("early", "early", true).await.is_none());
    assert!(scene.store.recorded("ordered").is_empty());
    assert!(scene.fixture.producer.usage().is_none(), "none is at work");
    scene.store.away.store(false, Ordering::SeqCst);
    assert_eq!(rotating.await.expect("no panic"), RotationEnd::Renewed);
    for (id, decision) in [("ordered", "hold"), ("tolerant", "retry")] {
        let recorded = scene.store.recorded(id);
        assert_eq!(recorded.len(), 1, "{id}");
        assert_eq!(
            recorded[0].outcome.certainty(),
            AcceptanceCertainty::Indeterminate
        );
        assert_eq!(recorded[0].producer_generation, generation);
        let held = match recorded[0].decision {
            RelayDecision::Hold => "hold",
            RelayDecision::Retry { .. } => "retry",
            other => panic!("{id}: {other:?}"),
        };
        assert_eq!(held, decision, "{id}");
    }
    let after = scene.relay("after", "after", true).await.expect("a permit");
    let receipt = after.receipt().expect("acknowledged");
    assert_ne!(receipt.producer_generation, generation);
    assert!(scene.fixture.publisher.poll_bounded(9).len() <= 2);
    scene.fixture.producer.shut_down().await;
}

/// With the store there, the worker itself records what was given up, and holds the waiting scope.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_workers_own_tx_c_holds_the_head_that_was_given_up() {
    let broker = OwnBroker::start().await;
    let topic = Topic::create_on(&broker.bootstrap(), 1, &[]).await;
    let scene = Arc::new(Scene::start(&topic, Duration::from_millis(200)).await);
    scene.relay("first", "w", true).await.expect("a permit");
    broker.proxy.set(Answers::Hold);
    let sent = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.relay("ordered", "w", true).await })
    };
    eventually("a record in the client", || {
        (scene.fixture.producer.usage()?.records == 1).then_some(())
    })
    .await;
    let rotating = {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.rotation.execute(RotationCause::Asked).await })
    };
    sent.await.expect("no panic").expect("a permit");
    broker.proxy.set(Answers::Pass);
    assert_eq!(rotating.await.expect("no panic"), RotationEnd::Renewed);
    let recorded = scene.store.recorded("ordered");
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0].decision, RelayDecision::Hold);
    assert_eq!(scene.rotation.board().view().abandoned, 1);
    scene.fixture.producer.shut_down().await;
}

/// A generation that admits is the only one: paused, none does; closed, nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_generation_admits_nothing_and_says_so() {
    use application_core::ports::ProducerLifecyclePort as _;
    let topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let producer = &fixture.producer;
    let paused = producer.pause().await.expect("paused");
    assert_eq!(paused.generation.expect("one").as_str(), "g-1");
    assert_eq!(*producer.readiness().borrow(), ProducerReadiness::Rotating);
    assert!(matches!(
        fixture.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::ProviderNotReady)
    ));
    assert!(
        producer.resume().await.is_err(),
        "the old one is not closed"
    );
    assert!(producer.close(LIMIT).await.expect("closed"));
    let outcome = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert_eq!(outcome.certainty(), AcceptanceCertainty::NotAccepted);
    assert!(topic.read_back(1, 0).await.is_empty());
    producer.shut_down().await;
}
