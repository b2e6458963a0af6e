//! Records sent once each, and what became of them.
//!
//! Invariant: every record has exactly one outcome. At the end what was acknowledged is on the
//! topic with its bytes, what was rejected is not, and no attempt is there twice: whatever is
//! missing was never called acknowledged, and whatever is not known is `INDETERMINATE`.

use crate::cluster::Cluster;
use crate::fixture::{Fixture, destination, event, eventually, settings};
use application_core::ports::{Admission, PublicationAdmissionPort as _};
use domain_core::publication::PublicationOutcome;
use outbound_messaging_kafka::read_back_topic;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Rejected,
    Indeterminate,
}

/// How many records had which outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) acknowledged: usize,
    pub(crate) rejected: usize,
    pub(crate) indeterminate: usize,
}

pub(crate) struct Account {
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) topic: String,
    fates: Arc<Mutex<BTreeMap<String, Fate>>>,
    supervised: tokio::task::JoinHandle<()>,
}

/// Records on their way.
pub(crate) struct Sending {
    workers: JoinSet<()>,
    done: Arc<AtomicUsize>,
}

/// Attempts under way at once.
const IN_FLIGHT: u32 = 1_000;
/// Longer than the client's own limit, so that the client's answer is the outcome.
const LIMIT: Duration = Duration::from_secs(40);

impl Account {
    /// A producer on a topic of three replicas a partition.
    pub(crate) async fn open(
        cluster: &Cluster,
        topic: String,
        partitions: u32,
        delivery_timeout: Duration,
    ) -> Self {
        let mut settings = settings("replaced:1");
        settings.bootstrap_servers = cluster.bootstrap();
        settings.request_timeout = Duration::from_secs(3);
        settings.delivery_timeout = delivery_timeout;
        settings.max_block_timeout = Duration::from_secs(5);
        settings.linger = Duration::from_millis(5);
        settings.buffer_memory_bytes = 64 << 20;
        settings.maximum_admitted_records = IN_FLIGHT;
        settings.maximum_buffered_records = 4 * IN_FLIGHT;
        let mut destination = destination(&topic, partitions);
        destination.minimum_replication_factor = 3;
        destination.minimum_in_sync_replicas = 2;
        let fixture = Arc::new(Fixture::build(settings, destination));
        fixture.producer.start().await.expect("start");
        Self {
            supervised: fixture.supervised(),
            fixture,
            topic,
            fates: Arc::default(),
        }
    }

    /// Begins to send so many records, each once, with as many under way as permits allow.
    pub(crate) fn send(&self, prefix: &str, records: usize) -> Sending {
        let next = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (fixture, fates) = (Arc::clone(&self.fixture), Arc::clone(&self.fates));
            let (next, done) = (Arc::clone(&next), Arc::clone(&done));
            let prefix = prefix.to_owned();
            workers.spawn(async move {
                let mut tick = tokio::time::interval(Duration::from_millis(20));
                loop {
                    let number = next.fetch_add(1, Ordering::AcqRel);
                    if number >= records {
                        return;
                    }
                    let permit = loop {
                        match fixture.publisher.admit().await {
                            Admission::Granted(permit) => break permit,
                            Admission::Refused(_) => tick.tick().await,
                        };
                    };
                    let id = format!("{prefix}-{number}");
                    let sent = event(&id, &format!("w-{}", number % 97), bytes(&id));
                    let outcome = fixture.publish(sent, LIMIT).await;
                    drop(permit);
                    let fate = match outcome {
                        PublicationOutcome::Acknowledged(_) => Fate::Acknowledged,
                        PublicationOutcome::Rejected(_) => Fate::Rejected,
                        PublicationOutcome::Indeterminate(_) => Fate::Indeterminate,
                        mismatch => panic!("{mismatch:?}"),
                    };
                    let mut fates = fates.lock().unwrap_or_else(PoisonError::into_inner);
                    assert_eq!(fates.insert(id, fate), None, "two outcomes");
                    done.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        Sending { workers, done }
    }

    /// What is known so far of the records with this prefix.
    pub(crate) fn counts(&self, prefix: &str) -> Counts {
        let fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = Counts::default();
        for (_, fate) in fates.iter().filter(|(id, _)| id.starts_with(prefix)) {
            match fate {
                Fate::Acknowledged => counts.acknowledged += 1,
                Fate::Rejected => counts.rejected += 1,
                Fate::Indeterminate => counts.indeterminate += 1,
            }
        }
        counts
    }

    /// Closes the producer and holds every outcome against the topic.
    pub(crate) async fn close(mut self, cluster: &Cluster) -> Counts {
        let report = self.fixture.producer.shut_down().await;
        assert_eq!((report.unresolved, report.permits_out), (0, 0));
        (&mut self.supervised).await.expect("without a panic");
        cluster.in_sync(&self.topic).await;
        let (bootstrap, topic) = (cluster.bootstrap(), self.topic.clone());
        let reading = move || {
            let mut found: BTreeMap<String, usize> = BTreeMap::new();
            read_back_topic(&bootstrap, &topic, Duration::from_secs(120), |record| {
                let id = record.id.expect("an id");
                assert_eq!(record.value, bytes(id), "other bytes under {id}");
                *found.entry(id.to_owned()).or_default() += 1;
            })
            .expect("the topic");
            found
        };
        let found = tokio::task::spawn_blocking(reading).await.expect("reader");
        let counts = self.counts("");
        let fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        let having = |fate: Fate, there: bool| -> Vec<&String> {
            let those = fates.iter().filter(|(_, found)| **found == fate);
            those
                .map(|(id, _)| id)
                .filter(|id| found.contains_key(*id) == there)
                .collect()
        };
        let lost = having(Fate::Acknowledged, false);
        assert!(lost.is_empty(), "acknowledged and missing: {lost:?}");
        let denied = having(Fate::Rejected, true);
        assert!(denied.is_empty(), "rejected and there: {denied:?}");
        for (id, times) in &found {
            assert!(fates.contains_key(id), "{id} was never sent");
            assert_eq!(*times, 1, "{id}");
        }
        println!(
            "{counts:?}; {} of the indeterminate ones are on the topic",
            having(Fate::Indeterminate, true).len()
        );
        counts
    }
}

impl Sending {
    /// Waits until so many have an outcome.
    pub(crate) async fn progress(&self, records: usize) {
        eventually("progress", || {
            (self.done.load(Ordering::Acquire) >= records).then_some(())
        })
        .await;
    }

    pub(crate) fn done(&self) -> usize {
        self.done.load(Ordering::Acquire)
    }

    /// Waits for every outcome.
    pub(crate) async fn end(mut self) {
        let all = async {
            while let Some(worker) = self.workers.join_next().await {
                worker.expect("without a panic");
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(180), all).await;
        ended.expect("every record has an outcome");
    }
}

fn bytes(id: &str) -> Vec<u8> {
    format!("{{\"id\":\"{id}\"}}").into_bytes()
}
