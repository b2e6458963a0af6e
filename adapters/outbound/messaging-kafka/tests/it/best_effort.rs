//! Best effort over the same gateway, on a real broker: one bounded attempt and its exact outcome.

use crate::broker::OwnBroker;
use crate::fixture::{Fixture, destination, event, eventually, settings};
use crate::proxy::Answers;
use crate::topic::{Topic, headers};
use application_core::event::{ValidatedIntegrationEvent, ValidatedParts};
use application_core::ports::{
    BestEffortMessage, BestEffortPublicationPort as _, LatePublicationObservationSource as _,
    MonotonicClockPort as _, ProducerLifecyclePort as _,
};
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, FailureStage, PublicationOutcome,
};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

fn message(fixture: &Fixture, id: &str, bytes: usize, limit: Duration) -> BestEffortMessage {
    let event = event(id, "w", vec![b'x'; bytes]);
    BestEffortMessage {
        event: Arc::new(ValidatedIntegrationEvent::seal(ValidatedParts {
            identities: event.identities,
            schemas: event.schemas,
            binding_revision: event.binding_revision,
            ordering_required: false,
            requeue_horizon: Duration::from_secs(1),
            trace: event.trace,
            envelope: event.envelope,
        })),
        deadline: fixture.clock.now().plus(limit),
    }
}

async fn send(fixture: &Fixture, id: &str, bytes: usize, limit: Duration) -> PublicationOutcome {
    let message = message(fixture, id, bytes, limit);
    fixture.publisher.publish_best_effort(&message).await
}

fn why(outcome: &PublicationOutcome) -> (AcceptanceCertainty, FailureStage, FailureClass) {
    let failure = outcome.failure().expect("a failure");
    (outcome.certainty(), failure.stage, failure.class)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_there_and_what_is_refused_is_not() {
    let topic = Topic::create(1, &[]).await;
    let mut one = settings(&topic.bootstrap);
    one.maximum_admitted_records = 1;
    let fixture = Fixture::build(one, destination(&topic.name, 1));
    let refused = send(&fixture, "early", 9, LIMIT).await;
    assert_eq!(
        why(&refused),
        (
            AcceptanceCertainty::NotAccepted,
            FailureStage::LocalAdmission,
            FailureClass::ClientClosed
        )
    );
    fixture.producer.start().await.expect("start");
    let acknowledged = send(&fixture, "e-1", 9, LIMIT).await;
    assert!(acknowledged.receipt().is_some(), "{acknowledged:?}");
    let large = send(&fixture, "e-large", 900_000, LIMIT).await;
    assert_eq!(
        why(&large),
        (
            AcceptanceCertainty::NotAccepted,
            FailureStage::Serialization,
            FailureClass::RecordTooLarge
        )
    );
    // It takes a permit like everybody, and waits for one a bounded time.
    let permit = fixture.permit().await;
    let saturated = send(&fixture, "e-late", 9, LIMIT).await;
    assert_eq!(
        why(&saturated),
        (
            AcceptanceCertainty::NotAccepted,
            FailureStage::LocalAdmission,
            FailureClass::BufferExhausted
        )
    );
    drop(permit);
    let records = topic.read_back(1, 1).await;
    let ids: Vec<_> = records
        .iter()
        .map(|record| headers(record)[0].1.clone())
        .collect();
    assert_eq!(ids, ["e-1"]);
    fixture.producer.shut_down().await;
}

/// Without an answer nobody knows; a rotation's end of the drain ends the wait; and a late answer is
/// nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_answered_is_indeterminate() {
    let broker = OwnBroker::start().await;
    let topic = Topic::create_on(&broker.bootstrap(), 1, &[]).await;
    let fixture = Arc::new(Fixture::start(&topic, 1).await);
    assert!(send(&fixture, "e-0", 9, LIMIT).await.receipt().is_some());
    broker.proxy.set(Answers::Hold);
    let late = send(&fixture, "e-1", 9, Duration::from_millis(500)).await;
    assert_eq!(
        why(&late),
        (
            AcceptanceCertainty::Indeterminate,
            FailureStage::Deadline,
            FailureClass::DeadlineExceeded
        )
    );
    let sending = {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move { send(&fixture, "e-2", 9, LIMIT).await })
    };
    eventually("the client has both", || {
        (fixture.producer.usage()?.records == 2).then_some(())
    })
    .await;
    fixture.producer.pause().await.expect("paused");
    let left = fixture.producer.abandon(LIMIT).await.expect("given up");
    assert_eq!((left.unresolved, left.permits_out), (2, 0));
    assert_eq!(
        why(&sending.await.expect("no panic")),
        (
            AcceptanceCertainty::Indeterminate,
            FailureStage::Shutdown,
            FailureClass::ClientClosed
        )
    );
    broker.proxy.set(Answers::Pass);
    eventually("the late answers", || {
        (fixture.producer.usage()?.records == 0).then_some(())
    })
    .await;
    assert!(fixture.publisher.poll_bounded(9).is_empty());
    assert_eq!(topic.read_back(1, 3).await.len(), 3);
    fixture.producer.shut_down().await;
}
