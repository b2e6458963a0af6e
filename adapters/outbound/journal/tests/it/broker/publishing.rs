//! The publish port: one outcome an attempt, and never one too good.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use application_core::ports::{
    Admission, AdmissionRefusal, LatePublicationObservation, MonotonicClockPort,
    OutboxMessagePublishPort, PublicationAdmissionPort, PublicationRequest, WallClockPort,
};
use domain_core::identity::ProducerGeneration;
use domain_core::instant::{DatabaseInstant, MonotonicInstant};
use domain_core::journal::Sequence;
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use outbound_journal::broker::{
    self, BrokerReader, JournalPublisher, MAX_ENVELOPE_BYTES, PublisherSettings,
};
use outbound_journal::{Journal, Limits};
use tempfile::tempdir;

use super::stored::{TRACEPARENT, event, request};
use crate::hooked::{Gate, Hooked, Hooks, PATIENCE};

/// A deadline that a test means to miss.
const SOON: Duration = Duration::from_millis(20);

struct Clock(Instant);

impl MonotonicClockPort for Clock {
    fn now(&self) -> MonotonicInstant {
        MonotonicInstant::since_origin(self.0.elapsed())
    }
}

struct WallClock;

impl WallClockPort for WallClock {
    fn now(&self) -> DatabaseInstant {
        OBSERVED_AT
    }
}

struct Broker {
    journal: Arc<Journal>,
    publisher: Arc<JournalPublisher>,
    clock: Arc<Clock>,
}

const OBSERVED_AT: DatabaseInstant = DatabaseInstant::from_epoch_micros(1_234_567);

fn count(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("not zero")
}

impl Broker {
    fn open(path: &Path, limits: Limits, hooks: Hooks) -> Broker {
        let journal = Journal::open_with_storage(path, broker::registry(), limits, |file| {
            Box::new(Hooked::new(file, hooks))
        });
        let journal = Arc::new(journal.expect("it opens"));
        let clock = Arc::new(Clock(Instant::now()));
        let settings = PublisherSettings {
            generation: ProducerGeneration::parse("g-1").expect("valid"),
            permits: count(2),
            admission_wait: SOON,
            late_capacity: count(2),
        };
        let publisher = JournalPublisher::new(
            Arc::clone(&journal),
            settings,
            Arc::clone(&clock) as Arc<dyn MonotonicClockPort>,
            Arc::new(WallClock),
        );
        Broker {
            journal,
            publisher: Arc::new(publisher),
            clock,
        }
    }

    fn request(&self, id: &str, left: Duration) -> PublicationRequest {
        let envelope = format!(r#"{{"eventId":"{id}"}}"#).into_bytes();
        request(self.clock.as_ref(), event(id, envelope), left)
    }

    async fn publish(&self, id: &str) -> PublicationOutcome {
        self.publisher.publish(&self.request(id, PATIENCE)).await
    }

    /// Starts a publication that nobody waits for yet.
    fn start(&self, id: &str) -> tokio::task::JoinHandle<PublicationOutcome> {
        let (publisher, request) = (Arc::clone(&self.publisher), self.request(id, PATIENCE));
        tokio::spawn(async move { publisher.publish(&request).await })
    }

    /// Late observations, once there are so many.
    async fn late(&self, expected: usize) -> Vec<LatePublicationObservation> {
        let source = self.publisher.late_observations();
        let begun = Instant::now();
        let mut seen = Vec::new();
        while seen.len() < expected {
            assert!(begun.elapsed() < PATIENCE, "a late observation comes");
            seen.extend(source.poll_bounded(10));
            tokio::task::yield_now().await;
        }
        seen
    }
}

fn acknowledged(outcome: &PublicationOutcome) -> &str {
    match outcome {
        PublicationOutcome::Acknowledged(receipt) => receipt.record_reference.as_str(),
        other => panic!("not acknowledged: {other:?}"),
    }
}

fn rejected(outcome: PublicationOutcome) -> PublicationFailure {
    assert_eq!(outcome.certainty(), AcceptanceCertainty::NotAccepted);
    outcome.failure().expect("a failure")
}

fn indeterminate(outcome: PublicationOutcome) -> PublicationFailure {
    assert_eq!(outcome.certainty(), AcceptanceCertainty::Indeterminate);
    outcome.failure().expect("a failure")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_event_is_synced_and_readable() {
    let dir = tempdir().expect("a directory");
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), Hooks::default());
    for (index, id) in ["e-1", "e-2", "e-3"].into_iter().enumerate() {
        let outcome = broker.publish(id).await;
        assert_eq!(acknowledged(&outcome), format!("journal:{}", index + 1));
        let receipt = outcome.receipt().expect("acknowledged");
        assert_eq!(receipt.provider_id, "journal-acknowledged.v1");
        assert_eq!(receipt.destination.as_str(), "portfolio-events");
        assert_eq!(receipt.producer_generation.as_str(), "g-1");
        assert_eq!(receipt.acknowledged_at, OBSERVED_AT);
    }
    let from = Sequence::new(2).expect("in range");
    let mut reader = BrokerReader::open(&broker.journal, from).expect("a reader");
    assert!(reader.wait_for_next(PATIENCE));
    let stored = event("e-2", br#"{"eventId":"e-2"}"#.to_vec());
    let (sequence, published) = reader.next_published().expect("readable").expect("there");
    assert_eq!(sequence.value(), 2);
    assert_eq!(published.envelope(), stored.envelope);
    assert_eq!(published.traceparent(), Some(TRACEPARENT));
    assert_eq!(published.occurred_at(), stored.identities.occurred_at);
    assert_eq!(
        published.partition_key().to_hex(),
        stored.partition_key.as_str()
    );
    let (sequence, _) = reader.next_published().expect("readable").expect("there");
    assert_eq!(sequence.value(), 3);
    assert!(reader.next_published().expect("readable").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_envelope_is_published_and_a_larger_one_is_rejected_for_good() {
    let dir = tempdir().expect("a directory");
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), Hooks::default());
    let sized = |id, bytes| {
        let event = event(id, vec![b'x'; bytes]);
        request(broker.clock.as_ref(), event, PATIENCE)
    };
    let largest = sized("e-1", MAX_ENVELOPE_BYTES);
    acknowledged(&broker.publisher.publish(&largest).await);
    let larger = sized("e-2", MAX_ENVELOPE_BYTES + 100);
    let failure = rejected(broker.publisher.publish(&larger).await);
    assert_eq!(failure.class, FailureClass::RecordTooLarge);
    assert_eq!(failure.disposition, RetryDisposition::NoRetry);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missed_deadline_is_indeterminate_and_its_commit_one_late_observation() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), hooks);
    let missed = broker.request("e-1", SOON);
    let outcome = broker.publisher.publish(&missed).await;
    let failure = indeterminate(outcome);
    assert_eq!(failure.class, FailureClass::DeadlineExceeded);
    assert_eq!(failure.disposition, RetryDisposition::RetryWithinBudget);
    let source = broker.publisher.late_observations();
    assert_eq!(source.poll_bounded(10), [], "nothing is committed yet");
    drop(gate);

    let observations = broker.late(1).await;
    assert_eq!(observations.len(), 1);
    assert_eq!(observations[0].attempt, missed.attempt);
    assert_eq!(observations[0].record_reference.as_str(), "journal:1");
    assert_eq!(observations[0].observed_at, OBSERVED_AT);
    assert_eq!(
        observations[0].binding_revision,
        missed.event.binding_revision
    );

    // Leased until it is released, and gone once it is durable.
    assert_eq!(source.poll_bounded(10), []);
    source.release_for_retry(observations[0].id);
    assert_eq!(source.poll_bounded(10), observations);
    source.acknowledge_persisted(observations[0].id);
    source.release_for_retry(observations[0].id);
    assert_eq!(source.poll_bounded(10), []);
    assert_eq!(source.dropped(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_that_is_given_up_is_committed_and_seen_late() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), hooks);
    let abandoned = broker.start("e-1");
    tokio::task::block_in_place(|| gate.await_sync());
    abandoned.abort();
    assert!(abandoned.await.expect_err("aborted").is_cancelled());
    drop(gate);
    let observations = broker.late(1).await;
    assert_eq!(observations[0].attempt.event_id.as_str(), "e-1");
    assert_eq!(broker.journal.head().records(), 1);
}

/// The answer is in the channel, and whoever waited goes away without having looked.
#[tokio::test(flavor = "multi_thread")]
async fn a_publication_given_up_after_the_answer_is_seen_late_once() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), hooks);
    let given_up = broker.request("e-1", PATIENCE);
    let mut publishing = broker.publisher.publish(&given_up);
    // Appended, and not looked at again.
    std::future::poll_fn(|context| {
        assert!(publishing.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(gate);
    // The writer answers in order, so the first answer is there when the second is heard.
    assert_eq!(acknowledged(&broker.publish("e-2").await), "journal:2");
    let source = broker.publisher.late_observations();
    assert_eq!(source.poll_bounded(10), [], "it is still waited for");
    drop(publishing);
    let observations = source.poll_bounded(10);
    assert_eq!(observations.len(), 1);
    assert_eq!(observations[0].attempt, given_up.attempt);
    assert_eq!(observations[0].record_reference.as_str(), "journal:1");
    assert_eq!(observations[0].observed_at, OBSERVED_AT);
    assert_eq!(observations[0].certainty, AcceptanceCertainty::Accepted);
    assert_eq!(source.dropped(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_observations_beyond_the_bound_are_counted_not_kept() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), hooks);
    for id in ["e-1", "e-2", "e-3"] {
        let missed = broker.request(id, SOON);
        indeterminate(broker.publisher.publish(&missed).await);
    }
    drop(gate);
    assert_eq!(broker.late(2).await.len(), 2);
    let source = broker.publisher.late_observations();
    let begun = Instant::now();
    while source.dropped() == 0 {
        assert!(begun.elapsed() < PATIENCE, "the third finds the queue full");
        tokio::task::yield_now().await;
    }
    assert_eq!(source.dropped(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_has_passed_appends_nothing() {
    let dir = tempdir().expect("a directory");
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), Hooks::default());
    let past = broker.request("e-1", Duration::ZERO);
    let failure = rejected(broker.publisher.publish(&past).await);
    assert_eq!(failure.class, FailureClass::DeadlineExceeded);
    assert_eq!(failure.disposition, RetryDisposition::RetryWithinBudget);
    acknowledged(&broker.publish("e-2").await);
    assert_eq!(broker.journal.head().records(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_is_indeterminate_and_what_waited_or_comes_later_stops_the_provider() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), hooks);
    assert!(matches!(
        broker.publisher.admit().await,
        Admission::Granted(_)
    ));
    let under_way = broker.start("e-1");
    tokio::task::block_in_place(|| gate.await_sync());
    gate.fail(io::Error::other("planted"));
    let failure = indeterminate(under_way.await.expect("an outcome"));
    assert_eq!(failure.class, FailureClass::ProviderFatal);
    assert_eq!(failure.disposition, RetryDisposition::StopProvider);

    let failure = rejected(broker.publish("e-2").await);
    assert_eq!(failure.class, FailureClass::ProviderFatal);
    assert_eq!(failure.disposition, RetryDisposition::StopProvider);
    assert!(matches!(
        broker.publisher.admit().await,
        Admission::Refused(AdmissionRefusal::ProviderNotReady)
    ));
    assert_eq!(broker.publisher.late_observations().poll_bounded(10), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_and_a_closed_journal_are_rejections() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let limits = Limits::new(10, 10_240, 1).expect("valid");
    let broker = Broker::open(&dir.path().join("j"), limits, hooks);
    let first = broker.start("e-1");
    tokio::task::block_in_place(|| gate.await_sync());
    // Fills the one place of the queue; its deadline passes there, and it stays in the queue.
    let missed = broker.request("e-2", SOON);
    indeterminate(broker.publisher.publish(&missed).await);
    let failure = rejected(broker.publish("e-3").await);
    assert_eq!(failure.class, FailureClass::BufferExhausted);
    assert_eq!(failure.disposition, RetryDisposition::RetryWithinBudget);
    drop(gate);
    acknowledged(&first.await.expect("an outcome"));
    broker.late(1).await;

    broker.journal.close();
    let failure = rejected(broker.publish("e-4").await);
    assert_eq!(failure.class, FailureClass::ClientClosed);
    assert_eq!(failure.disposition, RetryDisposition::StopProvider);
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_bounded_given_back_and_end_with_the_admission() {
    let dir = tempdir().expect("a directory");
    let broker = Broker::open(&dir.path().join("j"), Limits::default(), Hooks::default());
    let admit = || broker.publisher.admit();
    let (Admission::Granted(first), Admission::Granted(_second)) = (admit().await, admit().await)
    else {
        panic!("two permits");
    };
    assert_eq!(first.generation().as_str(), "g-1");
    assert!(matches!(
        admit().await,
        Admission::Refused(AdmissionRefusal::Saturated)
    ));
    drop(first);
    assert!(matches!(admit().await, Admission::Granted(_)));
    broker.publisher.stop_admission();
    assert!(matches!(
        admit().await,
        Admission::Refused(AdmissionRefusal::Closing)
    ));
}
