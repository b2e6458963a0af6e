//! The broker stores a record and its answer does not arrive in time.
//!
//! Invariant: the outcome is `INDETERMINATE` whatever comes later; a later answer is one late
//! observation that names the attempt; and the record is on the topic, which is why the outcome
//! may be called nothing else.

use crate::broker::OwnBroker;
use crate::fixture::{Fixture, WALL_MICROS, destination, event, eventually, settings};
use crate::proxy::Answers;
use crate::topic::{Topic, headers};
use application_core::ports::{
    LatePublicationObservationSource as _, OutboxMessagePublishPort as _,
};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use outbound_messaging_kafka::ProducerReadiness;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// One broker serves every case, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_late_answers() {
    let broker = OwnBroker::start().await;
    let topic = Topic::create_on(&broker.bootstrap(), 1, &[]).await;
    late_answer(&broker, &topic).await;
    dropped_future(&broker, &topic).await;
    shut_down_in_flight(&broker, &topic).await;
    cut_connections(&broker, &topic).await;
    absent_and_back(&broker, &topic).await;
}

async fn acknowledged(fixture: &Fixture, id: &str) {
    let outcome = fixture.publish(event(id, "w", b"{}".to_vec()), LIMIT).await;
    assert!(outcome.receipt().is_some(), "{id}: {outcome:?}");
}

async fn late_answer(broker: &OwnBroker, topic: &Topic) {
    let fixture = Fixture::start(topic, 1).await;
    acknowledged(&fixture, "late-0").await;
    let before = broker.proxy.held_bytes();
    broker.proxy.set(Answers::Hold);
    let request = fixture.request(
        event("late-1", "w", b"{}".to_vec()),
        Duration::from_millis(1_500),
    );
    let outcome = fixture.publisher.publish(&request).await;
    let expected = PublicationOutcome::Indeterminate(PublicationFailure {
        stage: FailureStage::Deadline,
        class: FailureClass::DeadlineExceeded,
        disposition: RetryDisposition::RetryWithinBudget,
    });
    assert_eq!(outcome, expected);
    assert!(broker.proxy.held_bytes() > before, "no answer was held");
    assert!(fixture.publisher.poll_bounded(9).is_empty());
    broker.proxy.set(Answers::Pass);
    let observed = eventually("a late observation", || {
        let observed = fixture.publisher.poll_bounded(9);
        (!observed.is_empty()).then_some(observed)
    })
    .await;
    assert_eq!(observed.len(), 1);
    assert_eq!(observed[0].attempt, request.attempt);
    assert_eq!(observed[0].observed_at.epoch_micros(), WALL_MICROS);
    assert_eq!(observed[0].binding_revision.as_str(), "test-events-r1");
    let reference = observed[0].record_reference.as_str().to_owned();
    fixture.publisher.release_for_retry(observed[0].id);
    assert_eq!(fixture.publisher.poll_bounded(9), observed);
    fixture.publisher.acknowledge_persisted(observed[0].id);
    fixture.publisher.release_for_retry(observed[0].id);
    let records = topic.read_back(1, 2).await;
    let stored = records
        .iter()
        .find(|record| headers(record)[0].1 == "late-1")
        .expect("stored although indeterminate");
    let offset = rdkafka::Message::offset(stored);
    assert_eq!(reference, format!("kafka:test/{}/0@{offset}", topic.name));
    let report = fixture.producer.shut_down().await;
    assert_eq!(report.unresolved, 0);
    assert!(fixture.publisher.poll_bounded(9).is_empty());
}

/// Giving up on a publication neither leaks its permit nor loses its acknowledgement.
async fn dropped_future(broker: &OwnBroker, topic: &Topic) {
    let fixture = Arc::new(Fixture::start(topic, 1).await);
    acknowledged(&fixture, "dropped-0").await;
    let before = broker.proxy.held_bytes();
    broker.proxy.set(Answers::Hold);
    let request = fixture.request(event("dropped-1", "w", b"{}".to_vec()), LIMIT);
    let attempt = request.attempt.clone();
    let sending = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move {
            let _permit = fixture.permit().await;
            fixture.publisher.publish(&request).await
        }
    });
    eventually("a held answer", || {
        (broker.proxy.held_bytes() > before).then_some(())
    })
    .await;
    sending.abort();
    assert!(sending.await.is_err());
    let mut permits = Vec::new();
    for _ in 0..8 {
        permits.push(fixture.permit().await);
    }
    broker.proxy.set(Answers::Pass);
    let observed = eventually("a late observation", || {
        fixture.publisher.poll_bounded(9).pop()
    })
    .await;
    assert_eq!(observed.attempt, attempt);
    drop(permits);
    fixture.producer.shut_down().await;
}

/// A shutdown with an answer outstanding says so, and the attempt ends as unknown.
async fn shut_down_in_flight(broker: &OwnBroker, topic: &Topic) {
    let mut short = settings(&topic.bootstrap);
    short.drain_timeout = Duration::from_secs(1);
    let fixture = Arc::new(Fixture::build(short, destination(&topic.name, 1)));
    fixture.producer.start().await.expect("start");
    acknowledged(&fixture, "shut-0").await;
    let before = broker.proxy.held_bytes();
    broker.proxy.set(Answers::Hold);
    let request = fixture.request(event("shut-1", "w", b"{}".to_vec()), LIMIT);
    let sending = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.publisher.publish(&request).await }
    });
    eventually("a held answer", || {
        (broker.proxy.held_bytes() > before).then_some(())
    })
    .await;
    let report = fixture.producer.shut_down().await;
    assert_eq!(report.unresolved, 1);
    let outcome = sending.await.expect("an outcome");
    let PublicationOutcome::Indeterminate(failure) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failure.class, FailureClass::ClientClosed);
    assert_eq!(failure.stage, FailureStage::Shutdown);
    broker.proxy.set(Answers::Pass);
}

/// Connections cut again and again under load: the client's retries keep each record once in
/// this session, and every answer is true.
async fn cut_connections(broker: &OwnBroker, topic: &Topic) {
    let before = topic.read_back(1, 0).await.len();
    let fixture = Fixture::start(topic, 1).await;
    let supervised = fixture.supervised();
    let mut answered = Vec::new();
    for number in 0..60 {
        if number % 10 == 5 {
            broker.proxy.cut();
        }
        let id = format!("cut-{number}");
        let sent = event(&id, "w", b"{}".to_vec());
        let outcome = fixture.publish(sent, LIMIT).await;
        match &outcome {
            PublicationOutcome::Acknowledged(_) => answered.push(id),
            PublicationOutcome::Indeterminate(_) => {}
            other => panic!("{id}: {other:?}"),
        }
    }
    let records = topic.read_back(1, before + answered.len()).await;
    let stored: Vec<_> = records[before..]
        .iter()
        .map(|record| headers(record)[0].1.clone())
        .collect();
    for id in &answered {
        let times = stored.iter().filter(|stored| *stored == id).count();
        assert_eq!(times, 1, "{id} was acknowledged");
    }
    assert!(answered.len() > 50, "only {} of 60", answered.len());
    fixture.producer.shut_down().await;
    supervised.await.expect("without a panic");
}

/// Cut and held at once, nobody answers: the gate shuts, and opens by itself.
async fn absent_and_back(broker: &OwnBroker, topic: &Topic) {
    let mut quick = settings(&topic.bootstrap);
    quick.attestation_timeout = Duration::from_secs(2);
    let fixture = Fixture::build(quick, destination(&topic.name, 1));
    fixture.producer.start().await.expect("start");
    let supervised = fixture.supervised();
    acknowledged(&fixture, "absent-0").await;
    broker.proxy.set(Answers::Hold);
    broker.proxy.cut();
    fixture
        .readiness(|now| *now == ProducerReadiness::BrokerAway)
        .await;
    broker.proxy.set(Answers::Pass);
    fixture
        .readiness(|now| matches!(now, ProducerReadiness::Ready(_)))
        .await;
    acknowledged(&fixture, "absent-1").await;
    fixture.producer.shut_down().await;
    supervised.await.expect("without a panic");
}
