//! Every bound, met on a real broker.
//!
//! Invariant: what is refused locally is never on the topic, and what the broker refuses for the
//! record's own sake is not tried again.

use crate::fixture::{Fixture, destination, event, settings};
use crate::topic::{Topic, headers};
use application_core::ports::{
    Admission, AdmissionRefusal, OutboxMessagePublishPort as _, PublicationAdmissionPort as _,
};
use domain_core::identity::DestinationBindingRevision;
use domain_core::instant::OccurredAt;
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

fn rejected(outcome: &PublicationOutcome) -> PublicationFailure {
    match outcome {
        PublicationOutcome::Rejected(failure) => *failure,
        other => panic!("not rejected: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_run_out_and_come_back() {
    let topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let mut permits = Vec::new();
    for _ in 0..8 {
        permits.push(fixture.permit().await);
    }
    assert!(matches!(
        fixture.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::Saturated)
    ));
    permits.pop();
    permits.push(fixture.permit().await);
    drop(permits);
    let report = fixture.producer.shut_down().await;
    assert_eq!((report.unresolved, report.permits_out), (0, 0));
    assert!(matches!(
        fixture.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::Closing)
    ));
}

/// With room for one record, the second waits a bounded time and is then certainly not sent;
/// with more patience it takes the first one's place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_buffer_refuses_after_a_bounded_wait() {
    let topic = Topic::create(1, &[]).await;
    for (patience, accepted) in [(Duration::from_millis(100), false), (LIMIT, true)] {
        let mut settings = settings(&topic.bootstrap);
        settings.maximum_admitted_records = 1;
        settings.maximum_buffered_records = 1;
        settings.linger = Duration::from_secs(1);
        settings.max_block_timeout = patience;
        let fixture = Arc::new(Fixture::build(settings, destination(&topic.name, 1)));
        fixture.producer.start().await.expect("start");
        let first = fixture.request(event("e-first", "w", b"{}".to_vec()), LIMIT);
        let second = fixture.request(event("e-second", "w", b"{}".to_vec()), LIMIT);
        let (first, second) = tokio::join!(
            biased;
            fixture.publisher.publish(&first),
            fixture.publisher.publish(&second),
        );
        assert!(first.receipt().is_some(), "{first:?}");
        if accepted {
            assert!(second.receipt().is_some(), "{second:?}");
        } else {
            let expected = PublicationFailure {
                stage: FailureStage::LocalAdmission,
                class: FailureClass::BufferExhausted,
                disposition: RetryDisposition::RetryWithinBudget,
            };
            assert_eq!(rejected(&second), expected);
        }
        fixture.producer.shut_down().await;
    }
    let ids: Vec<_> = topic
        .read_back(1, 3)
        .await
        .iter()
        .map(|record| headers(record)[0].1.clone())
        .collect();
    assert_eq!(ids, ["e-first", "e-first", "e-second"]);
}

async fn set_topic(topic: &Topic, name: &str, value: &str) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &topic.bootstrap)
        .create()
        .expect("admin client");
    let change = AlterConfig::new(ResourceSpecifier::Topic(&topic.name)).set(name, value);
    let results = admin
        .alter_configs(&[change], &AdminOptions::new())
        .await
        .expect("alter configs");
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_over_the_topics_limit_is_refused_for_good() {
    let topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    set_topic(&topic, "max.message.bytes", "10000").await;
    let large = event("e-large", "w", vec![b'x'; 50_000]);
    // The setting reaches the broker's log a moment after it was accepted.
    let expected = PublicationFailure {
        stage: FailureStage::BrokerAck,
        class: FailureClass::RecordTooLarge,
        disposition: RetryDisposition::NoRetry,
    };
    let mut sends = 0;
    loop {
        let outcome = fixture.publish(large.clone(), LIMIT).await;
        if outcome.receipt().is_none() {
            assert_eq!(rejected(&outcome), expected);
            break;
        }
        sends += 1;
        assert!(sends < 200, "the limit never took effect");
    }
    let small = fixture
        .publish(event("e-small", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert!(small.receipt().is_some(), "{small:?}");
    let records = topic.read_back(1, sends + 1).await;
    assert_eq!(records.len(), sends + 1);
    fixture.producer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_the_topic_does_not_take_is_refused_for_good() {
    let topic = Topic::create(1, &[("message.timestamp.before.max.ms", "1000")]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let outcome = fixture
        .publish(event("e-old", "w", b"{}".to_vec()), LIMIT)
        .await;
    let expected = PublicationFailure {
        stage: FailureStage::BrokerAck,
        class: FailureClass::InvalidPayload,
        disposition: RetryDisposition::NoRetry,
    };
    assert_eq!(rejected(&outcome), expected);
    fixture.permit().await;
    assert!(topic.read_back(1, 0).await.is_empty());
    fixture.producer.shut_down().await;
}

/// What can be known without the broker never reaches it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_refusals_send_nothing() {
    let topic = Topic::create(1, &[]).await;
    let fixture = Fixture::start(&topic, 1).await;
    let base = || event("e-local", "w", b"{}".to_vec());
    let mut at_epoch = base();
    at_epoch.identities.occurred_at = OccurredAt::from_epoch_millis(0).unwrap();
    let mut unbound = base();
    unbound.binding_revision = DestinationBindingRevision::parse("test-events-r9").unwrap();
    let cases = [
        (
            event("e-local", "w", vec![b'x'; 900_000]),
            LIMIT,
            FailureStage::Serialization,
            FailureClass::RecordTooLarge,
            RetryDisposition::NoRetry,
        ),
        (
            at_epoch,
            LIMIT,
            FailureStage::Serialization,
            FailureClass::InvalidPayload,
            RetryDisposition::NoRetry,
        ),
        (
            unbound,
            LIMIT,
            FailureStage::ContractCompile,
            FailureClass::DestinationMissing,
            RetryDisposition::StopProvider,
        ),
        (
            base(),
            Duration::ZERO,
            FailureStage::Deadline,
            FailureClass::DeadlineExceeded,
            RetryDisposition::RetryWithinBudget,
        ),
    ];
    for (event, limit, stage, class, disposition) in cases {
        let outcome = fixture.publish(event, limit).await;
        let expected = PublicationFailure {
            stage,
            class,
            disposition,
        };
        assert_eq!(rejected(&outcome), expected);
    }
    assert!(topic.read_back(1, 0).await.is_empty());
    fixture.producer.shut_down().await;
}
