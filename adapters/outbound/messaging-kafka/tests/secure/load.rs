//! Many records that each wait for their acknowledgement, as a relay's do.
//!
//! Invariant: a record is sent only under a permit and again only when its outcome allows it; what
//! its attempts ended with is kept, and the topic is read back at the end.

use crate::channel::LIMIT;
use crate::fixture::{Fixture, event, eventually};
use crate::topic::{Topic, headers};
use application_core::ports::{Admission, PublicationAdmissionPort as _};
use domain_core::publication::{FailureClass, PublicationOutcome, RetryDisposition};
use outbound_messaging_kafka::ProducerSettings;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// What an attempt without an acknowledgement ended with: certainly not accepted or not, class and
/// disposition.
type Ending = (bool, FailureClass, RetryDisposition);

#[derive(Default)]
struct Tally {
    acknowledged: AtomicUsize,
    under_way: AtomicUsize,
    /// From here on records wait.
    limit: AtomicUsize,
    endings: Mutex<BTreeMap<String, (Ending, usize)>>,
}

pub(crate) struct Load {
    pub(crate) fixture: Arc<Fixture>,
    records: usize,
    tally: Arc<Tally>,
    tasks: JoinSet<()>,
}

/// Few permits for many records, and faults that are met soon.
pub(crate) fn brisk(mut settings: ProducerSettings) -> ProducerSettings {
    settings.delivery_timeout = Duration::from_secs(5);
    settings.request_timeout = Duration::from_secs(2);
    settings.drain_timeout = Duration::from_secs(1);
    settings.maximum_admitted_records = 32;
    settings
}

impl Load {
    /// Begins to send; no more than `at_first` are acknowledged before [`Self::release`].
    pub(crate) fn begin(fixture: Arc<Fixture>, records: usize, at_first: usize) -> Self {
        let tally = Arc::new(Tally::default());
        tally.limit.store(at_first, Ordering::Release);
        let mut tasks = JoinSet::new();
        for number in 0..records {
            tasks.spawn(send(Arc::clone(&fixture), Arc::clone(&tally), number));
        }
        Self {
            fixture,
            records,
            tally,
            tasks,
        }
    }

    /// Waits until as many are acknowledged as may be at first.
    pub(crate) async fn first_ones(&self) {
        eventually("the first acknowledgements", || {
            let enough = self.tally.limit.load(Ordering::Acquire);
            (self.acknowledged() >= enough).then_some(())
        })
        .await;
    }

    /// Lets all others go.
    pub(crate) fn release(&self) {
        self.tally.limit.store(usize::MAX, Ordering::Release);
    }

    /// Records that were handed over and have no outcome yet.
    pub(crate) fn under_way(&self) -> usize {
        self.tally.under_way.load(Ordering::Acquire)
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.tally.acknowledged.load(Ordering::Acquire)
    }

    /// Waits for the last acknowledgement. Every record is on the topic, none was given up, and
    /// none lost an attempt of its own to the fault; what lies there twice was never known to be
    /// unaccepted.
    pub(crate) async fn end(mut self, topic: &Topic) {
        let all = async {
            while self
                .tasks
                .join_next()
                .await
                .transpose()
                .is_ok_and(|t| t.is_some())
            {}
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
        let endings = std::mem::take(
            &mut *self
                .tally
                .endings
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        assert!(
            ended.is_ok(),
            "{} acknowledged; {endings:?}",
            self.acknowledged()
        );
        assert_eq!(self.acknowledged(), self.records);
        assert!(!endings.is_empty(), "the fault met no record");
        let mut unknown = 0;
        for ((rejected, _, disposition), count) in endings.values() {
            assert_eq!(*disposition, RetryDisposition::StopProvider, "{endings:?}");
            unknown += if *rejected { 0 } else { *count };
        }
        let records = topic.read_back(1, self.records).await;
        let mut ids: Vec<_> = records
            .iter()
            .map(|record| headers(record)[0].1.clone())
            .collect();
        let stored = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), self.records);
        assert!(
            stored <= self.records + unknown,
            "{stored} records; {endings:?}"
        );
    }
}

async fn send(fixture: Arc<Fixture>, tally: Arc<Tally>, number: usize) {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    loop {
        tick.tick().await;
        if number >= tally.limit.load(Ordering::Acquire) {
            continue;
        }
        let Admission::Granted(permit) = fixture.publisher.admit().await else {
            continue;
        };
        let id = format!("e-{number}");
        let sent = event(&id, &format!("w-{}", number % 7), b"{}".to_vec());
        tally.under_way.fetch_add(1, Ordering::AcqRel);
        let outcome = fixture.publish(sent, LIMIT).await;
        tally.under_way.fetch_sub(1, Ordering::AcqRel);
        drop(permit);
        let (rejected, failure) = match outcome {
            PublicationOutcome::Acknowledged(_) => {
                tally.acknowledged.fetch_add(1, Ordering::AcqRel);
                return;
            }
            PublicationOutcome::Rejected(failure) => (true, failure),
            PublicationOutcome::Indeterminate(failure) => (false, failure),
            mismatch => panic!("{mismatch:?}"),
        };
        let ending = (rejected, failure.class, failure.disposition);
        let mut endings = tally.endings.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = endings.entry(format!("{ending:?}")).or_insert((ending, 0));
        entry.1 += 1;
    }
}
