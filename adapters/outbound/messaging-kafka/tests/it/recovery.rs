//! Generations that end and are replaced.
//!
//! Invariant: a fault of the provider stops admission at once and never touches the record; the
//! next generation begins by itself once the fault is repaired.

use crate::fixture::{Fixture, destination, event, settings};
use crate::topic::Topic;
use application_core::ports::{Admission, AdmissionRefusal, PublicationAdmissionPort as _};
use domain_core::publication::{FailureClass, PublicationOutcome, RetryDisposition};
use outbound_messaging_kafka::{ProducerReadiness, StartError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(40);

async fn acknowledged(fixture: &Fixture, id: &str) {
    let outcome = fixture.publish(event(id, "w", b"{}".to_vec()), LIMIT).await;
    assert!(outcome.receipt().is_some(), "{id}: {outcome:?}");
}

/// The topic disappears under a running producer and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_topic_stops_the_provider_until_it_is_back() {
    let mut topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let supervised = fixture.supervised();
    let first = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    let first = first.receipt().expect("acknowledged").clone();
    topic.delete().await;

    let outcome = fixture
        .publish(event("e-2", "w", b"{}".to_vec()), LIMIT)
        .await;
    let PublicationOutcome::Indeterminate(failure) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failure.class, FailureClass::DestinationMissing);
    assert_eq!(failure.disposition, RetryDisposition::StopProvider);
    let stopped = ProducerReadiness::Recovering(FailureClass::DestinationMissing);
    fixture.readiness(|now| *now == stopped).await;
    assert!(matches!(
        fixture.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::ProviderNotReady)
    ));

    let again = Topic::create_named(&topic.bootstrap, topic.name.clone(), 1, &[]).await;
    fixture
        .readiness(|now| matches!(now, ProducerReadiness::Ready(_)))
        .await;
    let permit = fixture.permit().await;
    assert_ne!(*permit.generation(), first.producer_generation);
    let outcome = fixture
        .publish(event("e-2", "w", b"{}".to_vec()), LIMIT)
        .await;
    let receipt = outcome.receipt().expect("acknowledged");
    assert_eq!(receipt.producer_generation, *permit.generation());
    assert_eq!(again.read_back(1, 1).await.len(), 1);
    drop(permit);
    let report = fixture.producer.shut_down().await;
    assert_eq!((report.unresolved, report.permits_out), (0, 0));
    tokio::time::timeout(LIMIT, supervised)
        .await
        .expect("the supervisor ends")
        .expect("without a panic");
}

/// The barrier: with a permit still out, a stopped generation is not replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_next_generation_while_a_permit_is_out() {
    let mut topic = Topic::create(1, &[]).await;
    let mut prompt = settings(&topic.bootstrap);
    prompt.drain_timeout = Duration::from_millis(100);
    prompt.recovery_minimum_delay = Duration::from_millis(10);
    prompt.recovery_maximum_delay = Duration::from_millis(10);
    let fixture = Fixture::build(prompt, destination(&topic.name, 1));
    fixture.producer.start().await.expect("start");
    let supervised = fixture.supervised();
    let permit = fixture.permit().await;
    topic.delete().await;
    // A busy client may learn of the deletion only after the first record's time is up.
    let mut stopped = false;
    for _ in 0..3 {
        let sent = event("e-1", "w", b"{}".to_vec());
        let outcome = fixture.publish(sent, LIMIT).await;
        assert!(outcome.receipt().is_none(), "{outcome:?}");
        stopped = outcome.disposition() == RetryDisposition::StopProvider;
        if stopped {
            break;
        }
    }
    assert!(stopped, "the deletion was never noticed");
    let again = Topic::create_named(&topic.bootstrap, topic.name.clone(), 1, &[]).await;
    let drained = ProducerReadiness::AwaitingPermits(FailureClass::DestinationMissing);
    fixture.readiness(|now| *now == drained).await;
    // Others come up on the same topic meanwhile, one after the other: without the barrier the
    // next generation would have come up before the last of them.
    for _ in 0..3 {
        let other = Fixture::start(&again, 1).await;
        acknowledged(&other, "e-0").await;
        other.producer.shut_down().await;
    }
    assert_eq!(*fixture.producer.readiness().borrow(), drained);
    drop(permit);
    // The second name that was given out, so none began in between.
    fixture
        .readiness(|now| matches!(now, ProducerReadiness::Ready(id) if id.as_str() == "g-2"))
        .await;
    let outcome = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert!(outcome.receipt().is_some(), "{outcome:?}");
    assert_eq!(again.read_back(1, 4).await.len(), 4);
    fixture.producer.shut_down().await;
    supervised.await.expect("without a panic");
}

/// Whoever starts twice has one generation, and whoever starts after the end has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_generation_at_work_and_none_after_the_end() {
    let topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let again = fixture.producer.start().await.expect("the one at work");
    assert_eq!(again.as_str(), "g-1");
    let permit = fixture.permit().await;
    assert_eq!(permit.generation().as_str(), "g-1");
    drop(permit);
    fixture.producer.shut_down().await;
    assert_eq!(fixture.producer.start().await, Err(StartError::Closing));
    let refused = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert_eq!(
        refused.failure().map(|failure| failure.class),
        Some(FailureClass::ClientClosed)
    );
    assert!(topic.read_back(1, 0).await.is_empty());
}
