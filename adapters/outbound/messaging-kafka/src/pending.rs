//! One record between its hand-over to the client and the client's report.
//!
//! Invariant: one atomic word, that of the channel between callback and waiter, decides who ends
//! the attempt. Closing it and reporting through it exclude each other, so a report is either the
//! outcome or, when it acknowledges, exactly one late observation; never both, never neither
//! (requirement 004 §§15.2, 16.5).

use crate::room::Reservation;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{AttemptIdentity, LatePublicationObservation};
use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId, ProducerGeneration};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What an attempt is, without its record.
#[derive(Debug, Clone)]
pub(crate) struct AttemptNote {
    /// `None` for a message that no journal knows.
    pub(crate) attempt: Option<AttemptIdentity>,
    pub(crate) destination: LogicalDestinationId,
    pub(crate) binding_revision: DestinationBindingRevision,
    pub(crate) topic: crate::destination::TopicName,
    pub(crate) expected_partitions: u32,
    pub(crate) producer_generation: ProducerGeneration,
}

impl AttemptNote {
    /// Leaves an acknowledgement that nobody waits for to the journal.
    fn observe_late(&self, outcome: &PublicationOutcome, late: &LateObservationQueue) {
        let (Some(receipt), Some(attempt)) = (outcome.receipt(), &self.attempt) else {
            return;
        };
        late.offer(|id| LatePublicationObservation {
            id,
            attempt: attempt.clone(),
            producer_generation: self.producer_generation.clone(),
            binding_revision: self.binding_revision.clone(),
            certainty: outcome.certainty(),
            observed_at: receipt.acknowledged_at,
            record_reference: receipt.record_reference.clone(),
        });
    }
}

/// The callback's side; the client carries it with the record.
pub(crate) struct PendingRecord {
    pub(crate) note: Arc<AttemptNote>,
    reporter: oneshot::Sender<PublicationOutcome>,
    late: Arc<LateObservationQueue>,
    /// Given back with the record itself, whoever drops it.
    room: Option<Reservation>,
}

impl PendingRecord {
    /// Both sides of a new attempt.
    pub(crate) fn new(note: AttemptNote, late: Arc<LateObservationQueue>) -> (Self, AwaitedReport) {
        let (reporter, report) = oneshot::channel();
        let note = Arc::new(note);
        let pending = Self {
            note: Arc::clone(&note),
            reporter,
            late: Arc::clone(&late),
            room: None,
        };
        (pending, AwaitedReport { note, report, late })
    }

    /// The record's bytes in the client.
    pub(crate) fn hold(&mut self, room: Reservation) {
        self.room = Some(room);
    }

    /// Ends the attempt with the client's report, unless it has ended already.
    pub(crate) fn report(self, outcome: PublicationOutcome) {
        if let Err(unheard) = self.reporter.send(outcome) {
            self.note.observe_late(&unheard, &self.late);
        }
    }
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waited {
    /// With the client's report.
    Reported(PublicationOutcome),
    /// The time was up first.
    TimeUp,
    /// Nobody waits any more.
    GivenUp,
}

/// The waiter's side. Dropping it ends the attempt undecided; an acknowledgement that came in
/// the meantime, or comes later, is observed late.
pub(crate) struct AwaitedReport {
    note: Arc<AttemptNote>,
    report: oneshot::Receiver<PublicationOutcome>,
    late: Arc<LateObservationQueue>,
}

impl AwaitedReport {
    /// Waits for the report until the time is up or the wait is given up. A client that went away
    /// without a report leaves nothing known.
    pub(crate) async fn within(
        mut self,
        limit: Duration,
        given_up: impl Future<Output = ()>,
    ) -> Waited {
        let end = {
            let timed = tokio::time::timeout(limit, &mut self.report);
            tokio::select! {
                biased;
                waited = timed => match waited {
                    Ok(Ok(outcome)) => return Waited::Reported(outcome),
                    Ok(Err(_)) => return Waited::Reported(vanished()),
                    Err(_) => Waited::TimeUp,
                },
                () = given_up => Waited::GivenUp,
            }
        };
        // The callback may have been first by a hair; then its word counts.
        match self.close() {
            Some(outcome) => Waited::Reported(outcome),
            None => end,
        }
    }

    fn close(&mut self) -> Option<PublicationOutcome> {
        self.report.close();
        self.report.try_recv().ok()
    }
}

impl Drop for AwaitedReport {
    fn drop(&mut self) {
        if let Some(outcome) = self.close() {
            self.note.observe_late(&outcome, &self.late);
        }
    }
}

/// The client dropped the record without a word about it.
fn vanished() -> PublicationOutcome {
    PublicationOutcome::Indeterminate(PublicationFailure {
        stage: FailureStage::Provider,
        class: FailureClass::ClientClosed,
        disposition: RetryDisposition::RetryWithinBudget,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use application_core::ports::LatePublicationObservationSource;
    use domain_core::identity::{
        ClaimToken, DeliveryGeneration, EventId, LogicalDestinationId, PublicationAttemptId,
    };
    use domain_core::instant::DatabaseInstant;
    use domain_core::publication::{
        AcceptanceCertainty, ProviderRecordReference, PublicationReceipt,
    };

    pub(crate) fn attempt() -> AttemptIdentity {
        AttemptIdentity {
            event_id: EventId::parse("e-1").unwrap(),
            generation: DeliveryGeneration::FIRST,
            attempt_id: PublicationAttemptId::parse("a-1").unwrap(),
            claim_token: ClaimToken::from_random([7; 16]),
        }
    }

    fn note() -> AttemptNote {
        AttemptNote {
            attempt: Some(attempt()),
            destination: LogicalDestinationId::parse("d").unwrap(),
            binding_revision: DestinationBindingRevision::parse("d-r1").unwrap(),
            topic: crate::destination::TopicName::parse("t").unwrap(),
            expected_partitions: 4,
            producer_generation: ProducerGeneration::parse("g-1").unwrap(),
        }
    }

    fn acknowledged() -> PublicationOutcome {
        PublicationOutcome::Acknowledged(PublicationReceipt {
            provider_id: crate::PROVIDER_ID,
            destination: LogicalDestinationId::parse("d").unwrap(),
            producer_generation: ProducerGeneration::parse("g-1").unwrap(),
            acknowledged_at: DatabaseInstant::from_epoch_micros(9),
            record_reference: ProviderRecordReference::parse("kafka:c/t/0@1").unwrap(),
        })
    }

    fn refused() -> PublicationOutcome {
        PublicationOutcome::Rejected(PublicationFailure {
            stage: FailureStage::BrokerAck,
            class: FailureClass::DeadlineExceeded,
            disposition: RetryDisposition::RetryWithinBudget,
        })
    }

    fn pending_forever() -> std::future::Pending<()> {
        std::future::pending()
    }

    /// Whoever gives a wait up has no answer, and an acknowledgement after it is observed late.
    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_a_late_observation() {
        let (late, pending, awaited) = waiting();
        let waited = awaited.within(Duration::from_secs(60), async {}).await;
        assert_eq!(waited, Waited::GivenUp);
        pending.report(acknowledged());
        assert_eq!(late.poll_bounded(9).len(), 1);
        // A report that came first counts.
        let (late, pending, awaited) = waiting();
        pending.report(acknowledged());
        let waited = awaited.within(Duration::from_secs(60), async {}).await;
        assert_eq!(waited, Waited::Reported(acknowledged()));
        assert!(late.poll_bounded(9).is_empty());
    }

    fn waiting() -> (Arc<LateObservationQueue>, PendingRecord, AwaitedReport) {
        let late = Arc::new(LateObservationQueue::new(1_000_000));
        let (pending, awaited) = PendingRecord::new(note(), Arc::clone(&late));
        (late, pending, awaited)
    }

    #[tokio::test]
    async fn a_report_in_time_is_the_outcome_and_nothing_else() {
        let (late, pending, awaited) = waiting();
        pending.report(acknowledged());
        let outcome = awaited.within(Duration::ZERO, pending_forever()).await;
        assert_eq!(outcome, Waited::Reported(acknowledged()));
        assert!(late.poll_bounded(9).is_empty());
    }

    #[tokio::test]
    async fn an_acknowledgement_after_the_deadline_is_one_late_observation() {
        let (late, pending, awaited) = waiting();
        let waited = awaited.within(Duration::ZERO, pending_forever()).await;
        assert_eq!(waited, Waited::TimeUp);
        pending.report(acknowledged());
        let observed = late.poll_bounded(9);
        assert_eq!(observed.len(), 1);
        assert_eq!(observed[0].attempt, attempt());
        assert_eq!(observed[0].observed_at.epoch_micros(), 9);
        assert_eq!(observed[0].certainty, AcceptanceCertainty::Accepted);
    }

    /// Nothing is known of the record, but why is: it was not the deadline.
    #[tokio::test]
    async fn a_client_that_vanished_is_not_a_missed_deadline() {
        let (late, pending, awaited) = waiting();
        drop(pending);
        let outcome = awaited
            .within(Duration::from_secs(60), pending_forever())
            .await;
        let expected = PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::Provider,
            class: FailureClass::ClientClosed,
            disposition: RetryDisposition::RetryWithinBudget,
        });
        assert_eq!(outcome, Waited::Reported(expected));
        assert!(late.poll_bounded(9).is_empty());
    }

    #[tokio::test]
    async fn a_late_refusal_is_no_observation() {
        let (late, pending, awaited) = waiting();
        let waited = awaited.within(Duration::ZERO, pending_forever()).await;
        assert_eq!(waited, Waited::TimeUp);
        pending.report(refused());
        assert!(late.poll_bounded(9).is_empty());
    }

    #[test]
    fn a_dropped_waiter_loses_no_acknowledgement_before_or_after() {
        let (late, pending, awaited) = waiting();
        pending.report(acknowledged());
        drop(awaited);
        assert_eq!(late.poll_bounded(9).len(), 1);
        let (late, pending, awaited) = waiting();
        drop(awaited);
        pending.report(acknowledged());
        assert_eq!(late.poll_bounded(9).len(), 1);
    }

    /// Deadline and callback meet again and again: the acknowledgement is seen once each time.
    #[test]
    fn deadline_and_callback_never_both_win_nor_both_lose() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let (mut outcomes, mut observed) = (0, 0);
        for round in 0..2_000 {
            let (late, pending, awaited) = waiting();
            let gate = Arc::new(std::sync::Barrier::new(2));
            let callback = {
                let gate = Arc::clone(&gate);
                std::thread::spawn(move || {
                    gate.wait();
                    pending.report(acknowledged());
                })
            };
            gate.wait();
            let reported = match round % 3 {
                0 => runtime.block_on(awaited.within(Duration::ZERO, pending_forever())),
                1 => runtime.block_on(awaited.within(Duration::from_secs(60), async {})),
                _ => {
                    drop(awaited);
                    Waited::TimeUp
                }
            };
            let reported = matches!(reported, Waited::Reported(_));
            callback.join().unwrap();
            let late = late.poll_bounded(9).len();
            assert_eq!(usize::from(reported) + late, 1, "round {round}");
            outcomes += usize::from(reported);
            observed += late;
        }
        assert_eq!(outcomes + observed, 2_000);
        assert!(observed > 0);
    }
}
