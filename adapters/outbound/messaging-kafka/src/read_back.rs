//! Reading a topic from its first record to its present end, to hold it against the outbox.
//!
//! Invariant: no group is joined and no offset is committed, so nobody else's consumption is
//! touched; the end is taken before the first record is read. A header is looked up by its exact
//! name, so one that another producer named in no encoding at all is passed over.

use crate::ffi::last_header;
use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;
use shared_contract::header;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One record as the cluster hands it out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReadBackRecord<'r> {
    /// The topic.
    pub topic: &'r str,
    /// The partition.
    pub partition: i32,
    /// The offset in the partition.
    pub offset: i64,
    /// The exact key, where there is one.
    pub key: Option<&'r [u8]>,
    /// The exact value; empty where there is none.
    pub value: &'r [u8],
    /// The last header `id`; `None` when it is absent or not UTF-8. So are the next two.
    pub id: Option<&'r str>,
    /// The last header `contract-id`.
    pub contract_id: Option<&'r str>,
    /// The last header `payload-version`.
    pub payload_version: Option<&'r str>,
}

impl<'r> ReadBackRecord<'r> {
    fn of(message: &'r BorrowedMessage<'_>) -> Self {
        let header = |name| std::str::from_utf8(last_header(message, name)?).ok();
        Self {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key(),
            value: message.payload().unwrap_or_default(),
            id: header(header::ID),
            contract_id: header(header::CONTRACT_ID),
            payload_version: header(header::PAYLOAD_VERSION),
        }
    }
}

impl std::fmt::Debug for ReadBackRecord<'_> {
    /// Where it lies and how large it is, without what it says.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadBackRecord")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("value_bytes", &self.value.len())
            .finish_non_exhaustive()
    }
}

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

/// Hands every record of a topic to `each`, and tells the end offset of each partition. Records of
/// one partition come in their order. Blocks; plaintext only.
///
/// # Errors
/// [`ReadBackError`]; some records may have been handed out before it.
pub fn read_back_topic(
    bootstrap_servers: &[String],
    topic: &str,
    patience: Duration,
    mut each: impl FnMut(&ReadBackRecord<'_>),
) -> Result<BTreeMap<i32, i64>, ReadBackError> {
    let deadline = Instant::now() + patience;
    let late = || ReadBackError::Deadline {
        topic: topic.to_owned(),
        patience,
    };
    let refused = |source: KafkaError| {
        if Instant::now() >= deadline && may_pass(&source) {
            late()
        } else {
            ReadBackError::Topic {
                topic: topic.to_owned(),
                source,
            }
        }
    };
    // The client's own error would repeat a configured value.
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap_servers.join(","))
        .set("group.id", "countersign-read-back")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        // What lies before the end need not be a record: a transaction's marker is none.
        .set("enable.partition.eof", "true")
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
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        match consumer.poll(left.min(Duration::from_millis(200))) {
            None => {}
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            // The client looks for a broker again by itself.
            Some(Err(error)) if may_pass(&error) => {}
            Some(Err(error)) => return Err(refused(error)),
            Some(Ok(message)) => {
                let Some(end) = open.get(&message.partition()).copied() else {
                    continue;
                };
                if message.offset() < end {
                    each(&ReadBackRecord::of(&message));
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

/// Whether a later answer may be another.
fn may_pass(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::BrokerTransportFailure
                | Code::AllBrokersDown
                | Code::OperationTimedOut
                | Code::Resolve
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
        )
    )
}

/// Asks until there is an answer that stays, at most until the deadline.
fn patiently<T>(
    consumer: &BaseConsumer,
    deadline: Instant,
    mut ask: impl FnMut(Duration) -> Result<T, KafkaError>,
) -> Result<T, KafkaError> {
    const PAUSE: Duration = Duration::from_millis(20);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match ask(left.max(Duration::from_millis(1))) {
            Err(error) if may_pass(&error) && Instant::now() < deadline => {
                // What the client has to say meanwhile is what was just answered.
                let _ = consumer.poll(PAUSE.min(left));
            }
            answer => return answer,
        }
    }
}

/// First and end offset of each partition; none of a topic that does not exist.
fn ends(
    consumer: &BaseConsumer,
    topic: &str,
    deadline: Instant,
) -> Result<BTreeMap<i32, (i64, i64)>, KafkaError> {
    let metadata = patiently(consumer, deadline, |left| {
        consumer.fetch_metadata(Some(topic), left)
    })?;
    let mut ends = BTreeMap::new();
    let Some(found) = metadata.topics().iter().find(|one| one.name() == topic) else {
        return Ok(ends);
    };
    match found.error().map(Code::from) {
        None => {}
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => return Ok(ends),
        Some(code) => return Err(KafkaError::MetadataFetch(code)),
    }
    for partition in found.partitions() {
        let offsets = patiently(consumer, deadline, |left| {
            consumer.fetch_watermarks(topic, partition.id(), left)
        })?;
        ends.insert(partition.id(), offsets);
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::send_with_header;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, Producer as _};

    /// The wrapper's own header iteration would panic here.
    #[test]
    fn a_header_whose_name_is_no_text_is_passed_over() {
        const LIMIT: Duration = Duration::from_secs(20);
        let cluster = MockCluster::new(1).expect("mock cluster");
        cluster.create_topic("t", 1, 1).expect("topic");
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .create()
            .expect("producer");
        for name in [&b"\xff\xfe"[..], b"id"] {
            send_with_header(producer.client(), "t", name, b"e-1").expect("taken");
        }
        producer.flush(LIMIT).expect("sent");
        let mut ids = Vec::new();
        let servers = [cluster.bootstrap_servers()];
        let ends = read_back_topic(&servers, "t", LIMIT, |record| {
            ids.push(record.id.map(str::to_owned));
        });
        assert_eq!(ends.expect("read"), BTreeMap::from([(0, 2)]));
        assert_eq!(ids, [None, Some("e-1".to_owned())]);
    }
}
