//! One turn of the relay: order of effects, outcomes, and every lost reply.

use crate::support::*;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{AdmissionRefusal, LatePublicationObservationSource as _};
use application_core::usecase::{RelayError, RelayOneRecord, RelaySettings, RelayTurn};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::WorkerId;
use domain_core::publication::*;
use std::sync::Arc;
use std::time::Duration;

struct Scene {
    log: Log,
    store: Arc<Store>,
    relay: RelayOneRecord,
    late: Arc<LateObservationQueue>,
}

fn scene(script: Vec<Answer>, outcome: PublicationOutcome) -> Scene {
    let log = Log::default();
    let store = Arc::new(Store::new(log.clone(), script));
    let clock = Arc::new(Clock::stepping(Duration::from_millis(1)));
    let late = Arc::new(LateObservationQueue::new(8));
    let relay = RelayOneRecord {
        admission: Arc::new(Permits {
            log: log.clone(),
            refusal: None,
        }),
        deliveries: store.clone(),
        publisher: Arc::new(Broker {
            log: log.clone(),
            outcome,
        }),
        codec: Arc::new(Codec),
        clock: clock.clone(),
        timer: clock,
        entropy: Arc::new(Entropy),
        reporter: Arc::new(Reporter {
            log: log.clone(),
            fails: false,
        }),
        late: late.clone(),
        settings: RelaySettings {
            owner: WorkerId::parse("worker-1").expect("worker"),
            lease: Duration::from_secs(90),
            attempt_budget: Duration::from_secs(68),
            publish_budget: Duration::from_secs(60),
            retry: RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(60), 5)
                .expect("policy"),
            known: Arc::from([]),
        },
    };
    Scene {
        log,
        store,
        relay,
        late,
    }
}

fn acknowledged() -> PublicationOutcome {
    PublicationOutcome::Acknowledged(receipt())
}

fn state(turn: RelayTurn) -> DeliveryStateName {
    match turn {
        RelayTurn::Persisted { report, .. } => report.state,
        other => panic!("expected a persisted attempt, not {other:?}"),
    }
}

#[tokio::test]
async fn permit_claim_publish_record_report_in_that_order() {
    let scene = scene(vec![Answer::Claim, Answer::Recorded], acknowledged());
    let turn = scene.relay.execute().await.expect("turn");
    assert_eq!(state(turn), DeliveryStateName::DeliveryRecorded);
    assert_eq!(
        scene.log.taken(),
        [
            "permit",
            "claim",
            "publish event-1",
            "record",
            "report DELIVERY_RECORDED",
            "permit back"
        ]
    );
}

#[tokio::test]
async fn without_a_permit_nothing_is_claimed() {
    for refusal in [
        AdmissionRefusal::Saturated,
        AdmissionRefusal::ProviderNotReady,
        AdmissionRefusal::Closing,
    ] {
        let mut scene = scene(vec![], acknowledged());
        scene.relay.admission = Arc::new(Permits {
            log: scene.log.clone(),
            refusal: Some(refusal),
        });
        let turn = scene.relay.execute().await.expect("turn");
        assert!(matches!(turn, RelayTurn::Refused(found) if found == refusal));
        assert!(scene.log.taken().is_empty());
    }
}

#[tokio::test]
async fn every_outcome_reaches_its_state() {
    use RetryDisposition::*;
    let rejected = |disposition| PublicationOutcome::Rejected(failure(disposition));
    let indeterminate = |disposition| PublicationOutcome::Indeterminate(failure(disposition));
    for (outcome, expected) in [
        (acknowledged(), "DELIVERY_RECORDED"),
        (PublicationOutcome::AcknowledgedMismatch(receipt()), "HOLD"),
        (rejected(NoRetry), "EXHAUSTED"),
        (rejected(RetryWithinBudget), "RETRY_WAIT"),
        (rejected(StopProvider), "RETRY_WAIT"),
        (rejected(OperatorHold), "HOLD"),
        (indeterminate(RetryWithinBudget), "RETRY_WAIT"),
        (indeterminate(StopProvider), "RETRY_WAIT"),
    ] {
        let scene = scene(vec![Answer::Claim, Answer::Recorded], outcome.clone());
        let turn = scene.relay.execute().await.expect("turn");
        assert_eq!(state(turn).as_str(), expected, "{outcome:?}");
        let records = scene.store.records.lock().expect("records");
        assert_eq!(records[0].outcome, outcome);
    }
}

#[tokio::test]
async fn a_row_that_contradicts_its_document_is_held_and_never_sent() {
    let mut wrong_hash = stored();
    wrong_hash.envelope = b"{ }".to_vec();
    let mut wrong_key = stored();
    wrong_key.partition_key =
        domain_core::hashing::PartitionKey::from_stored(&"0".repeat(64)).expect("key");
    let mut wrong_identity = stored();
    wrong_identity.identities.correlation_id =
        domain_core::identity::CorrelationId::parse("other").expect("id");
    for (event, name) in [
        (wrong_hash, "document hash"),
        (wrong_key, "partition key"),
        (wrong_identity, "correlation id"),
    ] {
        let script = vec![Answer::ClaimOf(Box::new(event)), Answer::Recorded];
        let scene = scene(script, acknowledged());
        let turn = scene.relay.execute().await.expect("turn");
        assert!(matches!(
            &turn,
            RelayTurn::Persisted { report, .. } if report.mismatch == Some(name)
        ));
        assert_eq!(state(turn), DeliveryStateName::Hold);
        let log = scene.log.taken();
        assert!(
            !log.iter().any(|entry| entry.starts_with("publish")),
            "{log:?}"
        );
        let records = scene.store.records.lock().expect("records");
        let failure = records[0].outcome.failure().expect("failure");
        assert_eq!(failure.class, FailureClass::RecordIntegrity);
    }
}

#[tokio::test]
async fn a_lease_that_would_not_outlast_the_attempt_means_no_send() {
    let mut scene = scene(vec![Answer::Claim, Answer::Recorded], acknowledged());
    scene.relay.clock = Arc::new(Clock::stepping(Duration::from_secs(23)));
    let turn = scene.relay.execute().await.expect("turn");
    assert_eq!(state(turn), DeliveryStateName::RetryWait);
    assert!(
        !scene
            .log
            .taken()
            .iter()
            .any(|entry| entry.starts_with("publish"))
    );
}

#[tokio::test]
async fn a_lost_claim_reply_is_looked_up_before_anything_is_sent() {
    let script = vec![Answer::ClaimUnknown, Answer::FoundOpen, Answer::Recorded];
    let found = scene(script, acknowledged());
    assert_eq!(
        state(found.relay.execute().await.expect("turn")),
        DeliveryStateName::DeliveryRecorded
    );
    for answer in [Answer::FoundNothing, Answer::FoundLost] {
        let scene = scene(vec![Answer::ClaimUnknown, answer], acknowledged());
        assert!(matches!(
            scene.relay.execute().await.expect("turn"),
            RelayTurn::Idle
        ));
        assert_eq!(
            scene.log.taken(),
            ["permit", "claim", "look up", "permit back"]
        );
    }
}

#[tokio::test]
async fn a_lost_record_reply_is_looked_up_before_it_is_tried_again() {
    let script = vec![Answer::Claim, Answer::RecordUnknown, Answer::FoundClosed];
    let closed = scene(script, acknowledged());
    assert_eq!(
        state(closed.relay.execute().await.expect("turn")),
        DeliveryStateName::DeliveryRecorded
    );
    let script = vec![
        Answer::Claim,
        Answer::RecordUnknown,
        Answer::FoundOpen,
        Answer::Recorded,
    ];
    let open = scene(script, acknowledged());
    assert_eq!(
        state(open.relay.execute().await.expect("turn")),
        DeliveryStateName::DeliveryRecorded
    );
    let log = open.log.taken();
    assert_eq!(
        log.iter()
            .filter(|entry| entry.starts_with("publish"))
            .count(),
        1
    );
}

/// The first commit may land after the look-up: then the repeat is stale, and a second look-up
/// tells that the outcome is recorded after all.
#[tokio::test]
async fn a_stale_repeat_after_a_lost_reply_is_looked_up_again() {
    let script = vec![
        Answer::Claim,
        Answer::RecordUnknown,
        Answer::FoundOpen,
        Answer::Stale,
        Answer::FoundClosed,
    ];
    let scene = scene(script, acknowledged());
    assert_eq!(
        state(scene.relay.execute().await.expect("turn")),
        DeliveryStateName::DeliveryRecorded
    );
}

#[tokio::test]
async fn a_lapsed_claim_records_and_reports_nothing() {
    for script in [
        vec![Answer::Claim, Answer::Stale],
        vec![Answer::Claim, Answer::RecordUnknown, Answer::FoundLost],
    ] {
        let scene = scene(script, acknowledged());
        assert!(matches!(
            scene.relay.execute().await.expect("turn"),
            RelayTurn::Stale { .. }
        ));
        let left = scene.late.poll_bounded(8);
        assert_eq!(left.len(), 1, "its acknowledgement is left to the journal");
        assert_eq!(left[0].certainty, AcceptanceCertainty::Accepted);
        assert_eq!(left[0].record_reference, receipt().record_reference);
        assert!(
            !scene
                .log
                .taken()
                .iter()
                .any(|entry| entry.starts_with("report"))
        );
    }
}

/// Tries go on, with pauses, until the lease cannot be held any more.
#[tokio::test]
async fn a_store_that_cannot_record_is_tried_until_the_lease_lapses() {
    let mut script = vec![Answer::Claim];
    script.extend((0..1000).map(|_| Answer::RecordUnavailable));
    let scene = scene(script, acknowledged());
    let error = scene.relay.execute().await.expect_err("no record");
    assert!(matches!(error, RelayError::Record { .. }));
    let log = scene.log.taken();
    // 50, 100, 200, 400, 800 ms, then a second each, within 90 seconds.
    let tries = log.iter().filter(|entry| *entry == "record").count();
    assert!((90..100).contains(&tries), "{tries} tries");
    assert!(!log.iter().any(|entry| entry.starts_with("report")));
}

#[tokio::test]
async fn a_store_that_is_away_for_a_moment_costs_no_repeat() {
    let script = vec![
        Answer::Claim,
        Answer::RecordUnavailable,
        Answer::RecordUnknown,
        Answer::LookUpFails,
        Answer::RecordUnavailable,
        Answer::FoundOpen,
        Answer::Recorded,
    ];
    let scene = scene(script, acknowledged());
    let turn = scene.relay.execute().await.expect("turn");
    assert_eq!(state(turn), DeliveryStateName::DeliveryRecorded);
    let log = scene.log.taken();
    assert_eq!(
        log.iter()
            .filter(|entry| entry.starts_with("publish"))
            .count(),
        1
    );
}

#[tokio::test]
async fn an_unavailable_store_claims_nothing() {
    let scene = scene(vec![Answer::ClaimUnavailable], acknowledged());
    assert!(matches!(
        scene.relay.execute().await,
        Err(RelayError::Claim(_))
    ));
    assert_eq!(scene.log.taken(), ["permit", "claim", "permit back"]);
}

#[tokio::test]
async fn an_idle_turn_gives_the_permit_back() {
    let scene = scene(vec![Answer::Nothing], acknowledged());
    assert!(matches!(
        scene.relay.execute().await.expect("turn"),
        RelayTurn::Idle
    ));
    assert_eq!(scene.log.taken(), ["permit", "claim", "permit back"]);
}

#[tokio::test]
async fn a_failing_reporter_changes_nothing() {
    let mut scene = scene(vec![Answer::Claim, Answer::Recorded], acknowledged());
    scene.relay.reporter = Arc::new(Reporter {
        log: scene.log.clone(),
        fails: true,
    });
    match scene.relay.execute().await.expect("turn") {
        RelayTurn::Persisted {
            report, reported, ..
        } => {
            assert!(!reported);
            assert_eq!(report.state, DeliveryStateName::DeliveryRecorded);
        }
        other => panic!("expected a persisted attempt, not {other:?}"),
    }
}
