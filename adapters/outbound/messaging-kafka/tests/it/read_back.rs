//! Reading a topic back, as a check of what was published does.
//!
//! Invariant: every record up to the end that the topic had is handed out once, whole, and nothing
//! that the topic lacks is waited for.

use crate::fixture::{Fixture, event};
use crate::topic::{Topic, shared_broker, unique_name};
use outbound_messaging_kafka::{ReadBackError, read_back_topic};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A record, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    topic: String,
    partition: i32,
    offset: i64,
    key: Option<Vec<u8>>,
    value: Vec<u8>,
    headers: [Option<String>; 3],
}

type Read = Result<(BTreeMap<i32, i64>, Vec<Kept>), ReadBackError>;

async fn read_within(bootstrap: &str, topic: &str, patience: Duration) -> Read {
    let (servers, topic) = (vec![bootstrap.to_owned()], topic.to_owned());
    let read = move || {
        let mut kept = Vec::new();
        let ends = read_back_topic(&servers, &topic, patience, |record| {
            kept.push(Kept {
                topic: record.topic.to_owned(),
                partition: record.partition,
                offset: record.offset,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.to_vec(),
                headers: [record.id, record.contract_id, record.payload_version]
                    .map(|header| header.map(str::to_owned)),
            });
        })?;
        Ok((ends, kept))
    };
    tokio::task::spawn_blocking(read).await.expect("reader")
}

async fn read(topic: &Topic) -> (BTreeMap<i32, i64>, Vec<Kept>) {
    let read = read_within(&topic.bootstrap, &topic.name, LIMIT).await;
    read.expect("read to its end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_partition_is_read_whole_and_in_order() {
    let topic = Topic::create(3, &[]).await;
    let fixture = Fixture::start(&topic, 3).await;
    let mut expected = Vec::new();
    for number in 0..24 {
        let (id, aggregate) = (format!("e-{number}"), format!("w-{}", number % 8));
        let sent = event(&id, &aggregate, id.clone().into_bytes());
        let key = sent.partition_key.as_str().as_bytes().to_vec();
        let outcome = fixture.publish(sent, LIMIT).await;
        assert!(outcome.receipt().is_some(), "{outcome:?}");
        expected.push((id, key));
    }
    fixture.producer.shut_down().await;

    let (ends, kept) = read(&topic).await;
    assert_eq!(ends.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(ends.values().sum::<i64>(), 24);
    assert_eq!(kept.len(), 24);
    for (id, key) in &expected {
        let found = kept
            .iter()
            .find(|record| record.value == id.as_bytes())
            .expect("every record");
        assert_eq!(found.topic, topic.name);
        assert_eq!(found.key.as_ref(), Some(key));
        let headers = [id, "portfolio.worklog.reserved", "2"];
        assert_eq!(
            found.headers,
            headers.map(|header| Some(header.to_owned())),
            "{id}"
        );
    }
    let used: BTreeSet<i32> = kept.iter().map(|record| record.partition).collect();
    assert!(used.len() > 1, "all keys in one partition");
    for (partition, end) in ends {
        let offsets: Vec<i64> = kept
            .iter()
            .filter(|record| record.partition == partition)
            .map(|record| record.offset)
            .collect();
        assert_eq!(offsets, (0..end).collect::<Vec<_>>(), "{partition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_topic_has_ends_and_no_records() {
    let topic = Topic::create(2, &[]).await;
    let (ends, kept) = read(&topic).await;
    assert_eq!(ends, BTreeMap::from([(0, 0), (1, 0)]));
    assert_eq!(kept, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_topic_is_said_to_be_missing() {
    let name = unique_name();
    match read_within(&shared_broker(), &name, LIMIT).await {
        Err(ReadBackError::Missing { topic }) => assert_eq!(topic, name),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_says_nothing_ends_with_the_deadline() {
    // It takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address").to_string();
    let patience = Duration::from_millis(700);
    let begun = std::time::Instant::now();
    match read_within(&address, "t", patience).await {
        Err(ReadBackError::Deadline { patience: said, .. }) => assert_eq!(said, patience),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() >= patience);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
}

/// What other producers may leave on a topic: no key, no value, no headers, and a transaction's
/// marker as the last offset, which no reader is ever handed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_records_are_handed_out_and_a_marker_at_the_end_is_not_waited_for() {
    let topic = Topic::create(1, &[]).await;
    let (bootstrap, name) = (topic.bootstrap.clone(), topic.name.clone());
    let send = move || {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &bootstrap)
            .set("transactional.id", &name)
            .create()
            .expect("producer");
        producer.init_transactions(LIMIT).expect("initialised");
        producer.begin_transaction().expect("begun");
        producer
            .send(BaseRecord::<(), [u8]>::to(&name).payload(b"plain"))
            .map_err(|(error, _)| error)
            .expect("taken");
        producer
            .send(BaseRecord::<[u8], [u8]>::to(&name).key(b"gone"))
            .map_err(|(error, _)| error)
            .expect("taken");
        producer.commit_transaction(LIMIT).expect("committed");
    };
    tokio::task::spawn_blocking(send).await.expect("sender");
    // The marker follows the commit's answer by a moment.
    let begun = std::time::Instant::now();
    let (ends, kept) = loop {
        let (ends, kept) = read(&topic).await;
        if ends == BTreeMap::from([(0, 3)]) || begun.elapsed() > LIMIT {
            break (ends, kept);
        }
    };
    assert_eq!(ends, BTreeMap::from([(0, 3)]));
    let record = |offset, key: Option<&[u8]>, value: &[u8]| Kept {
        topic: topic.name.clone(),
        partition: 0,
        offset,
        key: key.map(<[u8]>::to_vec),
        value: value.to_vec(),
        headers: [None, None, None],
    };
    assert_eq!(
        kept,
        [record(0, None, b"plain"), record(1, Some(b"gone"), b"")]
    );
}
