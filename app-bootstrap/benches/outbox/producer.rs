//! A bare producer: the same client library, broker, records and promises, and nothing else.
//!
//! Invariant: acknowledged by all replicas and idempotent, with the shipped producer's settings for
//! batches and time; every record is acknowledged before the clock stops.

use crate::place::{Database, Topic, bootstrap};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use sqlx::Row as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Acknowledged(Arc<AtomicU64>);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Record {
    key: String,
    value: Vec<u8>,
    timestamp: i64,
    headers: [(&'static str, String); 3],
}

/// Records a second, for the records of a filled database.
pub(crate) async fn rate(filled: &Database) -> f64 {
    let records = records(filled).await;
    let topic = Topic::create().await;
    let (name, total) = (topic.name.clone(), records.len() as u64);
    let rate = tokio::task::spawn_blocking(move || send(&name, &records))
        .await
        .expect("sent");
    assert_eq!(topic.records(), total);
    topic.remove().await;
    rate
}

async fn records(filled: &Database) -> Vec<Record> {
    let mut connection = filled.connect().await;
    sqlx::query(
        "SELECT event_id, contract_id, payload_version, partition_key_text, envelope_bytes, \
                (extract(epoch FROM occurred_at) * 1000)::bigint AS occurred_at \
           FROM outbox_event ORDER BY aggregate_sequence, partition_key_text",
    )
    .fetch_all(&mut connection)
    .await
    .expect("records")
    .iter()
    .map(|row| Record {
        key: row.get("partition_key_text"),
        value: row.get("envelope_bytes"),
        timestamp: row.get("occurred_at"),
        headers: [
            ("id", row.get("event_id")),
            ("contract-id", row.get("contract_id")),
            (
                "payload-version",
                row.get::<i32, _>("payload_version").to_string(),
            ),
        ],
    })
    .collect()
}

fn send(topic: &str, records: &[Record]) -> f64 {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let producer: ThreadedProducer<_> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .set("batch.size", "65536")
        .set("batch.num.messages", "10000")
        .set("queue.buffering.max.messages", "16000")
        .set("partitioner", "murmur2_random")
        .create_with_context(Acknowledged(Arc::clone(&acknowledged)))
        .expect("a producer");
    let began = Instant::now();
    for record in records {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            headers = headers.insert(Header {
                key,
                value: Some(value),
            });
        }
        let mut next = BaseRecord::to(topic)
            .key(&record.key)
            .payload(&record.value)
            .timestamp(record.timestamp)
            .headers(headers);
        while let Err((error, refused)) = producer.send(next) {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            assert_eq!(error, full);
            producer.poll(Duration::from_millis(1));
            next = refused;
        }
    }
    producer
        .flush(Duration::from_secs(60))
        .expect("everything is acknowledged");
    let took = began.elapsed();
    assert_eq!(acknowledged.load(Ordering::Relaxed), records.len() as u64);
    records.len() as f64 / took.as_secs_f64()
}
