//! One publication between its append and the journal's answer.
//!
//! Invariant: the channel between callback and waiter decides who ends the attempt. An answer
//! reaches the waiter, or, when it is a commit, becomes exactly one late observation, whenever the
//! waiter went away: before the answer, after it, or in the same moment. Never both, never neither.

use std::sync::Arc;
use std::time::Duration;

use application_core::late_queue::LateObservationQueue;
use application_core::ports::{AttemptIdentity, LatePublicationObservation};
use domain_core::identity::{DestinationBindingRevision, ProducerGeneration};
use domain_core::instant::DatabaseInstant;
use domain_core::journal::Sequence;
use domain_core::publication::{AcceptanceCertainty, ProviderRecordReference};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::AppendOutcome;

/// What a commit that nobody waits for is called.
pub(super) struct AttemptNote {
    pub(super) attempt: AttemptIdentity,
    pub(super) generation: ProducerGeneration,
    pub(super) binding_revision: DestinationBindingRevision,
}

/// The journal's answer and when it came.
pub(super) struct Answer {
    pub(super) outcome: AppendOutcome,
    pub(super) observed_at: DatabaseInstant,
}

/// How a wait ended.
pub(super) enum Waited {
    /// The journal answered in time.
    Answered(Answer),
    /// Time was up first.
    Elapsed,
    /// The callback went away without an answer, so nothing is known.
    Vanished,
}

/// The callback's side; the journal carries it with the record.
pub(super) struct PendingAnswer {
    shared: Arc<Shared>,
    sender: oneshot::Sender<Answer>,
}

/// The waiter's side. Dropping it ends the attempt undecided.
pub(super) struct AwaitedAnswer {
    shared: Arc<Shared>,
    receiver: oneshot::Receiver<Answer>,
}

struct Shared {
    note: AttemptNote,
    late: Arc<LateObservationQueue>,
}

impl PendingAnswer {
    /// Both sides of a new attempt.
    pub(super) fn new(
        note: AttemptNote,
        late: Arc<LateObservationQueue>,
    ) -> (PendingAnswer, AwaitedAnswer) {
        let (sender, receiver) = oneshot::channel();
        let shared = Arc::new(Shared { note, late });
        let pending = PendingAnswer {
            shared: Arc::clone(&shared),
            sender,
        };
        (pending, AwaitedAnswer { shared, receiver })
    }

    /// Ends the attempt with the journal's answer, unless it has ended already.
    pub(super) fn answer(self, answer: Answer) {
        if let Err(unheard) = self.sender.send(answer) {
            self.shared.observe_late(unheard);
        }
    }
}

impl AwaitedAnswer {
    /// Waits for the answer. One that comes in the moment in which time is up is late.
    pub(super) async fn within(mut self, limit: Duration) -> Waited {
        match timeout(limit, &mut self.receiver).await {
            Ok(Ok(answer)) => Waited::Answered(answer),
            Ok(Err(_)) => Waited::Vanished,
            Err(_) => Waited::Elapsed,
        }
    }
}

impl Drop for AwaitedAnswer {
    fn drop(&mut self) {
        // Closing first, so that the callback keeps what it has not handed over yet.
        self.receiver.close();
        if let Ok(unheard) = self.receiver.try_recv() {
            self.shared.observe_late(unheard);
        }
    }
}

impl Shared {
    /// Queues a commit; other answers were no acknowledgements.
    fn observe_late(&self, unheard: Answer) {
        let AppendOutcome::Committed { sequence } = unheard.outcome else {
            return;
        };
        let Some(record_reference) = reference(sequence) else {
            return;
        };
        self.late.offer(|id| LatePublicationObservation {
            id,
            attempt: self.note.attempt.clone(),
            producer_generation: self.note.generation.clone(),
            binding_revision: self.note.binding_revision.clone(),
            certainty: AcceptanceCertainty::Accepted,
            observed_at: unheard.observed_at,
            record_reference,
        });
    }
}

/// `journal:` and the sequence: at most 27 printable characters, so it is always a reference.
pub(super) fn reference(sequence: Sequence) -> Option<ProviderRecordReference> {
    ProviderRecordReference::parse(format!("journal:{sequence}")).ok()
}
