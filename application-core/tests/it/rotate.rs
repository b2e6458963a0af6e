//! The rotation over scripted ports: the order of its steps, a failure planted at every one of them,
//! and a store that cannot record.
//!
//! Invariant checked throughout: no two generations can send at once, and none resumes with an attempt
//! open.

use crate::rotate_ports::{Lapse, Producer, Store, id};
use crate::support::{Clock, Log};
use application_core::attempt_ledger::{AttemptLedger, LedgeredDeliveries};
use application_core::ports::{
    ClaimOutcome, ClaimRequest, OperatorAct, OutboxDeliveryPort, OutcomeRecord,
};
use application_core::rotation::{Material, RotationCause, RotationEnd, RotationStep};
use application_core::usecase::{RotateProducer, RotationPorts, RotationSettings};
use domain_core::identity::*;
use domain_core::publication::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Scene {
    log: Log,
    producer: Arc<Producer>,
    store: Arc<Store>,
    ledger: Arc<AttemptLedger>,
    rotate: RotateProducer,
}

fn scene(previous_limit: Duration) -> Scene {
    let log = Log::default();
    let producer = Arc::new(Producer {
        log: log.clone(),
        at_work: Mutex::new(Some(0)),
        ..Producer::default()
    });
    let store = Arc::new(Store::new(log.clone()));
    let ledger = Arc::new(AttemptLedger::new(10));
    let clock = Arc::new(Clock::stepping(Duration::from_millis(1)));
    let rotate = RotateProducer::new(
        RotationPorts {
            lifecycle: producer.clone(),
            material: producer.clone(),
            deliveries: store.clone(),
            dispositions: store.clone(),
            query: store.clone(),
            clock: clock.clone(),
            timer: clock,
        },
        RotationSettings {
            drain_limit: Duration::from_secs(1),
            record_limit: Duration::from_secs(1),
            close_limit: Duration::from_secs(1),
            previous_limit,
            minimum_delay: Duration::from_secs(1),
            maximum_delay: Duration::from_secs(8),
            retry: RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(1), 5)
                .expect("valid"),
            act: OperatorAct {
                operator: OperatorId::parse("rotation").expect("valid"),
                reason_code: ReasonCode::parse("ROTATION").expect("valid"),
                reason: ReasonText::parse("a test").expect("valid"),
                reference: ActReference::parse("rotation").expect("valid"),
            },
        },
        Arc::clone(&ledger),
    );
    Scene {
        log,
        producer,
        store,
        ledger,
        rotate,
    }
}

impl Scene {
    /// A claim whose Tx C was never recorded.
    async fn leave_open(&self, ordering_required: bool) -> OutcomeRecord {
        self.leave_open_as("a-1", ordering_required).await
    }

    async fn leave_open_as(&self, attempt: &str, ordering_required: bool) -> OutcomeRecord {
        let deliveries = LedgeredDeliveries::new(self.store.clone(), Arc::clone(&self.ledger));
        let request = ClaimRequest {
            owner: WorkerId::parse("w").expect("valid"),
            token: ClaimToken::from_random([1; 16]),
            attempt_id: PublicationAttemptId::parse(attempt).expect("valid"),
            producer_generation: id(0),
            lease: Duration::from_secs(9),
            attempt_budget: Duration::from_secs(1),
            maximum_attempts: if ordering_required { 1 } else { 2 },
            known: Arc::from([]),
        };
        let Ok(ClaimOutcome::Claimed(claimed)) = deliveries.claim_next(&request).await else {
            panic!("claimed");
        };
        assert_eq!(self.ledger.open().len(), 1);
        let outcome = PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::Shutdown,
            class: FailureClass::ClientClosed,
            disposition: RetryDisposition::RetryWithinBudget,
        });
        OutcomeRecord {
            attempt: claimed.attempt,
            owner: claimed.owner,
            producer_generation: id(0),
            binding_revision: claimed.event.binding_revision.clone(),
            outcome,
            decision: RelayDecision::Retry {
                delay: Duration::from_secs(1),
            },
        }
    }

    fn at_work(&self) -> Option<u32> {
        *self.producer.at_work.lock().expect("lock")
    }

    fn fail(&self, step: &'static str, times: usize) {
        self.producer
            .fails
            .lock()
            .expect("lock")
            .push((step, times));
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn the_order_is_that_of_the_requirement() {
    let scene = scene(HOUR);
    let end = scene.rotate.execute(RotationCause::SecretChanged).await;
    assert_eq!((end, scene.at_work()), (RotationEnd::Renewed, Some(1)));
    let expected = [
        "pause", "drain", "abandon", "close", "resolve", "create", "attest", "abandon", "resume",
    ];
    assert_eq!(scene.log.taken(), expected);
    let view = scene.rotate.board().view();
    assert_eq!((view.renewed, view.fell_back, view.abandoned), (1, 0, 0));
    assert_eq!(view.generation, Some(id(1)));
    let steps: Vec<_> = view.steps.iter().map(|step| step.as_str()).collect();
    let expected = [
        "PAUSING",
        "DRAINING",
        "RECORDING",
        "CLOSING",
        "RESOLVING",
        "CREATING",
        "ATTESTING",
        "BARRIER",
        "RESUMING",
        "RENEWED",
    ];
    assert_eq!(steps, expected);
}

/// Whatever fails, and however often: it ends with one generation at work and nothing open.
#[tokio::test]
async fn a_failure_at_any_step_is_overcome() {
    for cause in [
        RotationCause::Asked,
        RotationCause::SecretChanged,
        RotationCause::GenerationEnded(FailureClass::Unauthorized),
    ] {
        for step in [
            "pause",
            "drain",
            "abandon",
            "close",
            "resolve",
            "create",
            "attest",
            "resume",
            "create previous",
        ] {
            for times in [1, 2, 5] {
                let scene = scene(HOUR);
                scene.leave_open(true).await;
                scene.fail(step, times);
                if step == "create previous" {
                    scene.fail("create", 1);
                }
                let mut end = scene.rotate.execute(cause).await;
                // What fell back is tried again, as the loop of the process does.
                for _ in 0..10 {
                    assert!(scene.at_work().is_some(), "{cause:?} {step}");
                    assert!(scene.ledger.open().is_empty(), "{cause:?} {step}");
                    assert!(
                        matches!(scene.store.recorded.lock().expect("lock").as_slice(), [one]
                        if one.decision == RelayDecision::Hold),
                        "{cause:?} {step}"
                    );
                    if end == RotationEnd::Renewed {
                        break;
                    }
                    assert_eq!(end, RotationEnd::FellBack, "{cause:?} {step}");
                    assert!(scene.rotate.previous_left().is_some());
                    end = scene.rotate.execute(RotationCause::Asked).await;
                }
                assert_eq!(end, RotationEnd::Renewed, "{cause:?} {step} {times}");
                assert_eq!(scene.rotate.previous_left(), None);
            }
        }
    }
}

/// The previous material is for a bounded time; after it nothing is admitted until the new one works.
#[tokio::test]
async fn the_previous_material_is_used_for_a_bounded_time() {
    // The clock moves on by a millisecond a reading.
    let scene = scene(Duration::from_millis(4));
    scene.fail("create", 6);
    let mut fell_back = 0;
    loop {
        match scene.rotate.execute(RotationCause::SecretChanged).await {
            RotationEnd::FellBack => fell_back += 1,
            RotationEnd::Renewed => break,
            end => panic!("{end:?}"),
        }
        assert!(fell_back < 6, "the time is never over");
    }
    assert!(fell_back >= 1);
    let calls = scene.log.taken();
    let created_previous = calls
        .iter()
        .filter(|call| *call == "create previous")
        .count();
    assert_eq!(created_previous, fell_back);
    let created = calls.iter().filter(|call| *call == "create").count();
    assert_eq!(created, 7, "tried until it works");
}

/// The attempt that nobody recorded: held when its scope waits, else left to its retry.
#[tokio::test]
async fn what_is_open_is_recorded_before_the_barrier() {
    for ordering_required in [true, false] {
        let scene = scene(HOUR);
        scene.leave_open(ordering_required).await;
        scene.rotate.execute(RotationCause::Asked).await;
        let recorded = scene.store.recorded.lock().expect("lock").clone();
        assert_eq!(recorded.len(), 1);
        assert_eq!(
            recorded[0].outcome.certainty(),
            AcceptanceCertainty::Indeterminate
        );
        let held = recorded[0].decision == RelayDecision::Hold;
        assert_eq!(held, ordering_required);
    }
}

/// The worker's own Tx C between drain and resume holds the head; before and after, it does not.
#[tokio::test]
async fn the_workers_own_record_is_turned_into_a_hold() {
    for (holding, ordering_required, held) in [
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let scene = scene(HOUR);
        let record = scene.leave_open(ordering_required).await;
        if holding {
            scene.ledger.hold_unresolved();
        }
        let deliveries = LedgeredDeliveries::new(scene.store.clone(), Arc::clone(&scene.ledger));
        deliveries.record_outcome(&record).await.expect("valid");
        let recorded = scene.store.recorded.lock().expect("lock").clone();
        assert_eq!(recorded[0].decision == RelayDecision::Hold, held);
        let disposition = recorded[0].outcome.disposition();
        assert_eq!(disposition == RetryDisposition::OperatorHold, held);
        assert!(scene.ledger.open().is_empty());
        assert_eq!(scene.ledger.held(), u64::from(held));
    }
}

#[tokio::test]
async fn a_store_that_cannot_record_keeps_the_barrier_shut() {
    let scene = scene(HOUR);
    scene.leave_open(true).await;
    *scene.store.away.lock().expect("lock") = 20;
    let end = scene.rotate.execute(RotationCause::Asked).await;
    assert_eq!(end, RotationEnd::Renewed);
    let calls = scene.log.taken();
    let at = |wanted: &str| calls.iter().position(|call| call == wanted).expect("valid");
    assert!(at("record") < at("resume"));
    assert!(calls.iter().filter(|call| *call == "abandon").count() > 10);
    assert_eq!(calls.iter().filter(|call| *call == "resume").count(), 1);
}

/// A claim that lapsed cannot be recorded any more; its waiting head is held all the same, unless
/// somebody else has it by now.
#[tokio::test]
async fn a_lapsed_claim_of_a_waiting_scope_is_held() {
    for (lapse, ordering_required, held) in [
        (Lapse::Between, true, 1),
        (Lapse::Before, true, 1),
        (Lapse::Taken, true, 0),
        (Lapse::Between, false, 0),
        (Lapse::Before, false, 0),
    ] {
        for away in [0, 7] {
            let scene = scene(HOUR);
            scene.leave_open(ordering_required).await;
            *scene.store.lapse.lock().expect("lock") = lapse;
            *scene.store.away.lock().expect("lock") = away;
            scene.rotate.execute(RotationCause::Asked).await;
            assert_eq!(*scene.store.held.lock().expect("lock"), held);
            assert!(scene.ledger.open().is_empty());
        }
    }
}

#[tokio::test]
async fn a_permit_that_is_out_keeps_the_barrier_shut() {
    let scene = scene(HOUR);
    *scene.producer.permits_out.lock().expect("lock") = 30;
    let end = scene.rotate.execute(RotationCause::Asked).await;
    assert_eq!(end, RotationEnd::Renewed);
    let steps = scene.rotate.board().view().steps;
    assert!(steps.contains(&RotationStep::Barrier(Material::New)));
    assert!(scene.log.taken().len() > 30);
}

/// A claim closes what an earlier claim of the same event left open.
#[tokio::test]
async fn the_ledger_keeps_one_attempt_an_event() {
    let scene = scene(HOUR);
    for attempt in ["a-1", "a-2", "a-2"] {
        scene.leave_open_as(attempt, true).await;
    }
    let open = scene.ledger.open();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].attempt.attempt_id.as_str(), "a-2");
    assert_eq!(scene.ledger.forgotten(), 0);
}
