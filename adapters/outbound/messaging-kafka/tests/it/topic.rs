//! Topics of one test, and reading them back.
//!
//! Invariant: a topic has a name that nobody else has and is deleted with its guard.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, OwnedMessage};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask services up` prints it"))
}

pub(crate) fn shared_broker() -> String {
    environment("COUNTERSIGN_TEST_KAFKA_BOOTSTRAP")
}

pub(crate) fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nanos = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test.{}-{number}-{nanos}.v1", std::process::id())
}

fn admin(bootstrap: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .expect("admin client")
}

fn options() -> AdminOptions {
    let limit = Some(Duration::from_secs(20));
    AdminOptions::new()
        .request_timeout(limit)
        .operation_timeout(limit)
}

pub(crate) struct Topic {
    pub(crate) bootstrap: String,
    pub(crate) name: String,
    deleted: bool,
}

impl Topic {
    pub(crate) async fn create(partitions: i32, settings: &[(&str, &str)]) -> Self {
        Self::create_on(&shared_broker(), partitions, settings).await
    }

    pub(crate) async fn create_on(
        bootstrap: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::create_named(bootstrap, unique_name(), partitions, settings).await
    }

    pub(crate) async fn create_named(
        bootstrap: &str,
        name: String,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Self {
        let new = settings.iter().fold(
            // Events of these tests lie far back, and a record carries its event's time: under the
            // default retention the broker would delete them at its next look.
            NewTopic::new(&name, partitions, TopicReplication::Fixed(1)).set("retention.ms", "-1"),
            |topic, (key, value)| topic.set(key, value),
        );
        let results = admin(bootstrap)
            .create_topics([&new], &options())
            .await
            .expect("create topics");
        assert_eq!(results, [Ok(name.clone())]);
        Self {
            bootstrap: bootstrap.to_owned(),
            name,
            deleted: false,
        }
    }

    pub(crate) async fn delete(&mut self) {
        self.deleted = true;
        let results = admin(&self.bootstrap)
            .delete_topics(&[&self.name], &options())
            .await
            .expect("delete topics");
        assert_eq!(results, [Ok(self.name.clone())]);
    }

    /// Everything in the topic, at least `expected` records, within a deadline; partition by
    /// partition, in offset order.
    pub(crate) async fn read_back(&self, partitions: i32, expected: usize) -> Vec<OwnedMessage> {
        let (bootstrap, name) = (self.bootstrap.clone(), self.name.clone());
        tokio::task::spawn_blocking(move || read(&bootstrap, &name, partitions, expected))
            .await
            .expect("reader")
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        if self.deleted {
            return;
        }
        let (bootstrap, name) = (self.bootstrap.clone(), self.name.clone());
        let deleting = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("runtime");
            // A test that failed because its broker is gone must not fail twice.
            let _ = runtime.block_on(admin(&bootstrap).delete_topics(&[&name], &options()));
        });
        let _ = deleting.join();
    }
}

fn read(bootstrap: &str, topic: &str, partitions: i32, expected: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .create()
        .expect("consumer");
    let mut assignment = TopicPartitionList::new();
    let mut remaining = 0;
    for partition in 0..partitions {
        assignment
            .add_partition_offset(topic, partition, Offset::Beginning)
            .expect("partition");
        let (low, high) = consumer
            .fetch_watermarks(topic, partition, Duration::from_secs(20))
            .expect("watermarks");
        remaining += high - low;
    }
    consumer.assign(&assignment).expect("assign");
    let until = Instant::now() + Duration::from_secs(30);
    let mut messages = Vec::new();
    while remaining > 0 && Instant::now() < until {
        if let Some(message) = consumer.poll(Duration::from_millis(200)) {
            messages.push(message.expect("message").detach());
            remaining -= 1;
        }
    }
    assert!(
        messages.len() >= expected,
        "{} records of {expected}",
        messages.len()
    );
    messages.sort_by_key(|message| (message.partition(), message.offset()));
    messages
}

/// Headers in their order.
pub(crate) fn headers(message: &OwnedMessage) -> Vec<(String, String)> {
    message
        .headers()
        .expect("headers")
        .iter()
        .map(|header| {
            let value = String::from_utf8(header.value.expect("value").to_vec()).expect("UTF-8");
            (header.key.to_owned(), value)
        })
        .collect()
}
