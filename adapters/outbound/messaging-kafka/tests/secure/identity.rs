//! Who may do what.
//!
//! Invariant: a producer works with the three rights of requirement 004 §22.5 on its one topic, and
//! has no other.

use crate::broker::{Broker, Door};
use crate::channel::{LIMIT, producer, refused, started, topic_for};
use crate::fixture::{Fixture, destination, event, settings};
use crate::rights::{self, Operation};
use crate::topic::{Topic, unique_name};
use domain_core::publication::FailureClass;
use outbound_messaging_kafka::{AttestationError, ProducerReadiness, StartError};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::time::Duration;

const PUBLISHER: &str = "publisher-4af1";
const LEAST: &str = "least-4af1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_and_an_unknown_user_are_refused() {
    let broker = Broker::shared();
    let topic = topic_for(PUBLISHER).await;
    for (user, password) in [
        (PUBLISHER, "not-the-password"),
        ("nobody-4af1", "not-the-password"),
    ] {
        let mut settings = settings(broker.address(Door::Trusted));
        settings.security = broker.security_with(user, password);
        let fixture = Fixture::build(settings, destination(&topic.name, 1));
        refused(&fixture, &topic, FailureClass::AuthenticationFailed).await;
        fixture.producer.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_rights_on_one_topic_are_enough_to_publish() {
    let topic = topic_for(LEAST).await;
    let fixture = producer(LEAST, Door::Trusted, &topic);
    started(&fixture).await;
    let outcome = fixture
        .publish(event("e-1", "w", b"{}".to_vec()), LIMIT)
        .await;
    assert!(outcome.receipt().is_some(), "{outcome:?}");
    assert_eq!(topic.read_back(1, 1).await.len(), 1);
    fixture.producer.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_user_creates_deletes_and_alters_nothing() {
    let topic = topic_for(LEAST).await;
    let admin: AdminClient<DefaultClientContext> = Broker::shared()
        .client(LEAST)
        .create()
        .expect("admin client");
    let options = AdminOptions::new().request_timeout(Some(LIMIT));
    let name = unique_name();
    let new = NewTopic::new(&name, 1, TopicReplication::Fixed(1));
    let created = admin.create_topics([&new], &options).await.expect("asked");
    assert_eq!(created, [Err((name, Code::TopicAuthorizationFailed))]);
    let deleted = admin
        .delete_topics(&[&topic.name], &options)
        .await
        .expect("asked");
    let denied = [Err((topic.name.clone(), Code::TopicAuthorizationFailed))];
    assert_eq!(deleted, denied);
    let more = NewPartitions::new(&topic.name, 2);
    let grown = admin
        .create_partitions([&more], &options)
        .await
        .expect("asked");
    assert_eq!(grown, denied);
    let change = AlterConfig::new(ResourceSpecifier::Topic(&topic.name)).set("retention.ms", "1");
    // The client's wrapper does not say what became of one resource, so the broker is asked.
    admin
        .alter_configs(&[change], &options)
        .await
        .expect("asked");
    let asked = [ResourceSpecifier::Topic(&topic.name)];
    let described = admin
        .describe_configs(&asked, &options)
        .await
        .expect("asked");
    let retention = described[0].as_ref().expect("its right");
    let retention = retention.get("retention.ms").expect("a setting");
    assert_eq!(retention.value.as_deref(), Some("-1"));
}

/// A topic of which it may know everything, but to which it may not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_user_writes_to_no_other_topic() {
    let broker = Broker::shared();
    // The right to write to some topic is what lets it be a producer at all.
    let own = topic_for(LEAST).await;
    let other = Topic::create_on(&broker.plain.to_string(), 1, &[]).await;
    let fixture = producer(LEAST, Door::Trusted, &other);
    let error = fixture.producer.start().await.expect_err("unseen");
    assert!(
        matches!(
            error,
            StartError::Attestation(AttestationError::TopicRefused { .. })
        ),
        "{error:?}"
    );
    assert_eq!(error.class(), FailureClass::Unauthorized);

    let seen = [Operation::Describe, Operation::DescribeConfigs];
    rights::grant(broker.plain, LEAST, &other.name, &seen);
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let denied = tokio::time::timeout(LIMIT, async {
        loop {
            tick.tick().await;
            match fixture.producer.start().await.expect_err("no right") {
                StartError::Attestation(AttestationError::TopicRefused { .. }) => {}
                error => return error,
            }
        }
    });
    let error = denied.await.expect("the rules take effect");
    assert!(
        matches!(
            error,
            StartError::Attestation(AttestationError::MayNotWrite { .. })
        ),
        "{error:?}"
    );
    assert_eq!(error.class(), FailureClass::Unauthorized);
    let stopped = ProducerReadiness::Recovering(FailureClass::Unauthorized);
    assert_eq!(*fixture.producer.readiness().borrow(), stopped);
    fixture.producer.shut_down().await;

    // That is no mere courtesy: the broker refuses it from a client that asks nothing.
    let client: FutureProducer = broker.client(LEAST).create().expect("producer");
    let record = FutureRecord::to(&other.name).key("w").payload("{}");
    let (error, _) = client.send(record, LIMIT).await.expect_err("denied");
    assert_eq!(
        error.rdkafka_error_code(),
        Some(Code::TopicAuthorizationFailed)
    );
    for topic in [own, other] {
        assert!(topic.read_back(1, 0).await.is_empty());
    }
}
