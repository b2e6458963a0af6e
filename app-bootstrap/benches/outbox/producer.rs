//! A bare producer on the same broker, records of the same size, as many in flight as it likes.
//!
//! Invariant: acknowledged by all replicas and idempotent, as the shipped producer is.

use crate::scene::{bootstrap, create_topic};
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Bytes of a measured event's document.
const DOCUMENT_BYTES: usize = 400;
/// Records in flight, as many as the window profile's permits.
const IN_FLIGHT: usize = 4_000;

/// Records a second.
pub(crate) async fn rate(records: u32) -> f64 {
    let nanos = UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let topic = format!("portfolio.bench-bare-{nanos}");
    create_topic(&topic).await;
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .create()
        .expect("a producer");
    let document = vec![b'x'; DOCUMENT_BYTES];
    let permits = std::sync::Arc::new(tokio::sync::Semaphore::new(IN_FLIGHT));
    let began = Instant::now();
    let mut sends = tokio::task::JoinSet::new();
    for number in 0..records {
        let permit = std::sync::Arc::clone(&permits)
            .acquire_owned()
            .await
            .expect("open");
        let (producer, topic, document) = (producer.clone(), topic.clone(), document.clone());
        sends.spawn(async move {
            let key = format!("{:064x}", number % 4_000);
            let record = FutureRecord::to(&topic).key(&key).payload(&document);
            producer
                .send(record, Duration::from_secs(30))
                .await
                .expect("acknowledged");
            drop(permit);
        });
    }
    while let Some(send) = sends.join_next().await {
        send.expect("a send");
    }
    f64::from(records) / began.elapsed().as_secs_f64()
}
