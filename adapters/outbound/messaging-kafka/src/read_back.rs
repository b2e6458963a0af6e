//! Reading a topic from its first record to its present end, to hold it against the outbox.
//!
//! Invariant: no group is joined and no offset is committed, so nobody else's consumption is
//! touched; the end is taken before the first record is read.

use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Why a topic could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadBackError {
    /// No consumer could be made.
    #[error("no Kafka consumer could be made")]
    Create,
    /// The cluster did not answer, or refused.
    #[error("topic {topic} cannot be read")]
    Topic {
        /// The topic.
        topic: String,
        /// The client's reason.
        #[source]
        source: KafkaError,
    },
    /// The topic does not exist.
    #[error("topic {topic} does not exist")]
    Missing {
        /// The topic.
        topic: String,
    },
    /// Time ran out before the end.
    #[error("topic {topic} was not read to its end within {patience:?}")]
    Deadline {
        /// The topic.
        topic: String,
        /// The time allowed.
        patience: Duration,
    },
}

/// Hands every record's value of a topic to `each`, and tells the end offset of each partition.
/// Blocks; plaintext only.
///
/// # Errors
/// [`ReadBackError`]; some records may have been handed out before it.
pub fn read_back_topic(
    bootstrap_servers: &[String],
    topic: &str,
    patience: Duration,
    mut each: impl FnMut(&[u8]),
) -> Result<BTreeMap<i32, i64>, ReadBackError> {
    let deadline = Instant::now() + patience;
    let refused = |source| ReadBackError::Topic {
        topic: topic.to_owned(),
        source,
    };
    // The client's own error would repeat a configured value.
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap_servers.join(","))
        .set("group.id", "countersign-read-back")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("allow.auto.create.topics", "false")
        .set("security.protocol", "PLAINTEXT")
        .create()
        .map_err(|_| ReadBackError::Create)?;
    let ends = ends(&consumer, topic, deadline).map_err(refused)?;
    if ends.is_empty() {
        return Err(ReadBackError::Missing {
            topic: topic.to_owned(),
        });
    }
    let mut open: BTreeMap<i32, i64> = ends
        .iter()
        .filter(|(_, (first, end))| first < end)
        .map(|(partition, (_, end))| (*partition, *end))
        .collect();
    let mut assignment = TopicPartitionList::new();
    for partition in open.keys() {
        assignment
            .add_partition_offset(topic, *partition, Offset::Beginning)
            .map_err(refused)?;
    }
    consumer.assign(&assignment).map_err(refused)?;
    while !open.is_empty() {
        if Instant::now() >= deadline {
            return Err(ReadBackError::Deadline {
                topic: topic.to_owned(),
                patience,
            });
        }
        match consumer.poll(Duration::from_millis(200)) {
            None => {}
            Some(Err(error)) => return Err(refused(error)),
            Some(Ok(message)) => {
                let Some(end) = open.get(&message.partition()).copied() else {
                    continue;
                };
                if message.offset() < end {
                    each(message.payload().unwrap_or_default());
                }
                if message.offset() + 1 >= end {
                    open.remove(&message.partition());
                }
            }
        }
    }
    Ok(ends
        .into_iter()
        .map(|(partition, (_, end))| (partition, end))
        .collect())
}

/// First and end offset of each partition.
fn ends(
    consumer: &BaseConsumer,
    topic: &str,
    deadline: Instant,
) -> Result<BTreeMap<i32, (i64, i64)>, KafkaError> {
    let left = || {
        deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1))
    };
    let metadata = consumer.fetch_metadata(Some(topic), left())?;
    let partitions = metadata
        .topics()
        .iter()
        .filter(|found| found.name() == topic && found.error().is_none())
        .flat_map(|found| found.partitions());
    let mut ends = BTreeMap::new();
    for partition in partitions {
        let offsets = consumer.fetch_watermarks(topic, partition.id(), left())?;
        ends.insert(partition.id(), offsets);
    }
    Ok(ends)
}
