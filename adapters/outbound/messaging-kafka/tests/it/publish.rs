//! What an acknowledged record looks like on the broker.
//!
//! Invariant: bytes are compared with the event, not with what the adapter says it sent.

use crate::fixture::{Fixture, OCCURRED_MILLIS, PARENT, WALL_MICROS, event};
use crate::topic::{Topic, headers};
use application_core::ports::LatePublicationObservationSource as _;
use domain_core::publication::PublicationOutcome;
use rdkafka::{Message as _, Timestamp};
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_record_is_there_as_it_was_stored() {
    let topic = Topic::create(3, &[]).await;
    let fixture = Fixture::start(&topic, 3).await;
    let permit = fixture.permit().await;
    let sent = event("e-1", "w-1", "{\"t\":\"작업 ✓\"}".as_bytes().to_vec());
    let outcome = fixture.publish(sent.clone(), LIMIT).await;
    let PublicationOutcome::Acknowledged(receipt) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        receipt.provider_id,
        "kafka-rdkafka-acknowledged-idempotent.v1"
    );
    assert_eq!(receipt.producer_generation, *permit.generation());
    assert_eq!(receipt.acknowledged_at.epoch_micros(), WALL_MICROS);
    let records = topic.read_back(3, 1).await;
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(
        receipt.record_reference.as_str(),
        format!(
            "kafka:test/{}/{}@{}",
            topic.name,
            record.partition(),
            record.offset()
        )
    );
    assert_eq!(record.key(), Some(sent.partition_key.as_bytes()));
    assert_eq!(record.payload(), Some(sent.envelope.as_slice()));
    assert_eq!(record.timestamp(), Timestamp::CreateTime(OCCURRED_MILLIS));
    let expected = [
        ("id", "e-1"),
        ("contract-id", "portfolio.worklog.reserved"),
        ("payload-version", "2"),
        ("traceparent", PARENT),
        ("tracestate", "vendor=1"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(headers(record), expected);
    assert!(fixture.publisher.poll_bounded(9).is_empty());
    let report = fixture.producer.shut_down().await;
    assert_eq!((report.unresolved, report.permits_out), (0, 1));
}

/// A key goes where the Java client would put it, every time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_go_where_the_java_client_would_put_them() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("murmur2.json")).unwrap();
    let topic = Topic::create(6, &[]).await;
    let fixture = Fixture::start(&topic, 6).await;
    for round in 0..2 {
        for (number, vector) in vectors.iter().enumerate() {
            let aggregate = vector["aggregateId"].as_str().unwrap();
            let sent = event(&format!("e-{round}-{number}"), aggregate, b"{}".to_vec());
            assert_eq!(sent.partition_key.as_str(), vector["key"].as_str().unwrap());
            let outcome = fixture.publish(sent, LIMIT).await;
            let receipt = outcome.receipt().expect("acknowledged");
            let place = format!("{}/{}@", topic.name, vector["partition"]);
            assert!(
                receipt.record_reference.as_str().contains(&place),
                "{receipt:?} {place}"
            );
        }
    }
    let records = topic.read_back(6, 2 * vectors.len()).await;
    for vector in &vectors {
        let key = vector["key"].as_str().unwrap().as_bytes();
        let partitions: Vec<_> = records
            .iter()
            .filter(|record| record.key() == Some(key))
            .map(|record| i64::from(record.partition()))
            .collect();
        let expected = vector["partition"].as_i64().unwrap();
        assert_eq!(partitions, [expected, expected]);
    }
    fixture.producer.shut_down().await;
}

/// Many at once, over one shared client, each with its own answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_sends_each_get_their_own_answer() {
    let topic = Topic::create(3, &[]).await;
    let fixture = std::sync::Arc::new(Fixture::start(&topic, 3).await);
    let mut sends = tokio::task::JoinSet::new();
    for number in 0..40 {
        let fixture = std::sync::Arc::clone(&fixture);
        sends.spawn(async move {
            let id = format!("e-{number}");
            let aggregate = format!("w-{}", number % 5);
            let sent = event(&id, &aggregate, format!("{{\"n\":{number}}}").into_bytes());
            let outcome = fixture.publish(sent, LIMIT).await;
            let receipt = outcome.receipt().expect("acknowledged").clone();
            (id, receipt.record_reference.as_str().to_owned())
        });
    }
    let answers: std::collections::BTreeMap<_, _> = sends.join_all().await.into_iter().collect();
    let records = topic.read_back(3, 40).await;
    assert_eq!((answers.len(), records.len()), (40, 40));
    for record in &records {
        let id = &headers(record)[0].1;
        let place = format!(
            "kafka:test/{}/{}@{}",
            topic.name,
            record.partition(),
            record.offset()
        );
        assert_eq!(answers.get(id), Some(&place));
    }
    fixture.producer.shut_down().await;
}
