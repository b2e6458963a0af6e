//! What stops a producer before it sends anything.
//!
//! Invariant: a fault that somebody must repair is told from one that may pass, and neither makes
//! a topic.

use crate::fixture::{Fixture, destination, event, settings};
use crate::topic::{Topic, shared_broker, unique_name};
use application_core::ports::{Admission, AdmissionRefusal, PublicationAdmissionPort as _};
use domain_core::publication::FailureClass;
use outbound_messaging_kafka::{AttestationError, KafkaDestination, StartError};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use std::time::Duration;

async fn attestation(bootstrap: &str, destination: KafkaDestination) -> AttestationError {
    let mut settings = settings(bootstrap);
    settings.attestation_timeout = Duration::from_secs(3);
    let fixture = Fixture::build(settings, destination);
    let error = fixture.producer.start().await.expect_err("must not start");
    assert!(matches!(
        fixture.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::ProviderNotReady)
    ));
    let outcome = fixture
        .publish(event("e", "w", b"{}".to_vec()), Duration::from_secs(5))
        .await;
    assert_eq!(
        outcome.failure().map(|failure| failure.class),
        Some(FailureClass::ClientClosed)
    );
    match error {
        StartError::Attestation(error) => error,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_is_a_fault_and_is_not_created() {
    let name = unique_name();
    let error = attestation(&shared_broker(), destination(&name, 1)).await;
    assert!(
        matches!(error, AttestationError::TopicMissing { .. }),
        "{error}"
    );
    assert!(!error.is_transient() && error.to_string().contains(&name));
    assert_eq!(error.class(), FailureClass::DestinationMissing);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", shared_broker())
        .create()
        .unwrap();
    let metadata = consumer
        .fetch_metadata(None, Duration::from_secs(10))
        .unwrap();
    assert!(metadata.topics().iter().all(|topic| topic.name() != name));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_broker_may_come_back() {
    // Bound and dropped, so that nothing listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let error = attestation(&address, destination("test.x.v1", 1)).await;
    assert!(
        matches!(error, AttestationError::BrokerUnreachable { .. }) && error.is_transient(),
        "{error}"
    );
    assert!(!error.to_string().contains(&address));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_differs_from_its_binding_is_a_fault() {
    let topic = Topic::create(2, &[("max.message.bytes", "1000000")]).await;
    let base = || destination(&topic.name, 2);
    type Change = fn(&mut KafkaDestination);
    let cases: [(&str, Change); 3] = [
        ("partitions = expected-partitions", |d| {
            d.expected_partitions = 3;
        }),
        ("replicas >= minimum-replication-factor", |d| {
            d.minimum_replication_factor = 2;
        }),
        ("max.message.bytes >= topic-maximum-bytes", |d| {
            d.topic_maximum_bytes = 1_000_001;
        }),
    ];
    for (rule, change) in cases {
        let mut destination = base();
        change(&mut destination);
        let error = attestation(&topic.bootstrap, destination).await;
        assert!(error.to_string().contains(rule), "{rule}: {error}");
        assert!(!error.is_transient());
        assert_eq!(error.class(), FailureClass::TopicPolicyMismatch);
    }
    let stamped = Topic::create(1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let error = attestation(&stamped.bootstrap, destination(&stamped.name, 1)).await;
    assert!(
        error
            .to_string()
            .contains("message.timestamp.type = CreateTime"),
        "{error}"
    );
}

/// Compaction would take an aggregate's earlier events after they were acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_topic_is_refused_whatever_else_it_does() {
    for found in ["compact", "compact,delete"] {
        let topic = Topic::create(1, &[("cleanup.policy", found)]).await;
        let error = attestation(&topic.bootstrap, destination(&topic.name, 1)).await;
        assert_eq!(
            error.to_string(),
            format!(
                "topic {}: cleanup.policy = delete does not hold; the broker says {found}",
                topic.name
            )
        );
        assert_eq!(error.class(), FailureClass::TopicPolicyMismatch);
        assert!(!error.is_transient());
    }
    let topic = Topic::create(1, &[("cleanup.policy", "delete")]).await;
    let fixture = Fixture::start(&topic, 1).await;
    fixture.producer.shut_down().await;
}
