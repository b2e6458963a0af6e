//! The publish port on a journal.
//!
//! Invariant: each attempt has one outcome, decided by whichever comes first, the journal's answer
//! or the monotonic deadline. An answer that comes second never changes it; a commit among them
//! becomes one late observation. Giving up on an attempt withdraws nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use application_core::event::StoredOutboxEvent;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{
    Admission, AdmissionRefusal, AttemptIdentity, LateObservationId, LatePublicationObservation,
    LatePublicationObservationSource, MonotonicClockPort, OutboxMessagePublishPort, PermitGuard,
    PublicationAdmissionPort, PublicationPermit, PublicationRequest,
};
use domain_core::identity::{DestinationBindingRevision, ProducerGeneration};
use domain_core::instant::DatabaseInstant;
use domain_core::journal::Sequence;
use domain_core::publication::{
    ProviderRecordReference, PublicationFailure, PublicationOutcome, PublicationReceipt,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::record::EnvelopePublished;
use super::{PROVIDER_ID, outcome};
use crate::{AppendOutcome, Journal, NewRecord};

/// Says when this process observed something, by its wall clock. It stamps receipts and judges
/// nothing.
pub type WallClock = Arc<dyn Fn() -> DatabaseInstant + Send + Sync>;

/// Bounds and name of one publisher.
#[derive(Debug, Clone)]
pub struct PublisherSettings {
    /// This producer runtime.
    pub generation: ProducerGeneration,
    /// Most records under way, from permit to recorded outcome.
    pub permits: NonZeroUsize,
    /// How long a request for a permit waits.
    pub admission_wait: Duration,
    /// Most late observations kept, leased ones included.
    pub late_capacity: NonZeroUsize,
}

/// Publishes stored events to a broker's journal.
pub struct JournalPublisher {
    journal: Arc<Journal>,
    settings: PublisherSettings,
    clock: Arc<dyn MonotonicClockPort>,
    wall_clock: WallClock,
    permits: Arc<Semaphore>,
    late: Arc<LateObservationQueue>,
}

/// What an attempt's callback needs to name a commit that came late.
struct LateName {
    attempt: AttemptIdentity,
    generation: ProducerGeneration,
    binding_revision: DestinationBindingRevision,
}

/// The journal's answer and when it came.
struct Answer {
    outcome: AppendOutcome,
    observed_at: DatabaseInstant,
}

struct Permit {
    _permit: OwnedSemaphorePermit,
}

impl PermitGuard for Permit {}

impl JournalPublisher {
    /// A publisher over an open broker's file ([`super::open`]).
    pub fn new(
        journal: Arc<Journal>,
        settings: PublisherSettings,
        clock: Arc<dyn MonotonicClockPort>,
        wall_clock: WallClock,
    ) -> JournalPublisher {
        let count = settings.permits.get().min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(count));
        let late = Arc::new(LateObservationQueue::new(settings.late_capacity.get()));
        JournalPublisher {
            journal,
            settings,
            clock,
            wall_clock,
            permits,
            late,
        }
    }

    /// Grants no more permits. Attempts under way end as they would.
    pub fn stop_admission(&self) {
        self.permits.close();
    }

    /// Commits that came after their deadline.
    pub fn late_observations(&self) -> Arc<dyn LatePublicationObservationSource> {
        Arc::clone(&self.late) as Arc<dyn LatePublicationObservationSource>
    }

    /// Appends with a callback that answers in time or queues a late observation.
    fn append(&self, record: NewRecord, request: &PublicationRequest) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let name = LateName::of(request, &self.settings.generation);
        let late = Arc::clone(&self.late);
        let wall_clock = Arc::clone(&self.wall_clock);
        self.journal.append_with(record, move |outcome| {
            let observed_at = wall_clock();
            let answer = Answer {
                outcome,
                observed_at,
            };
            // The channel is the terminal marker: it takes the answer or is closed, never both.
            if let Err(missed) = sender.send(answer) {
                name.offer(missed, &late);
            }
        });
        receiver
    }

    fn outcome(&self, answer: Answer, event: &StoredOutboxEvent) -> PublicationOutcome {
        match answer.outcome {
            AppendOutcome::Committed { sequence } => match reference(sequence) {
                Some(record_reference) => PublicationOutcome::Acknowledged(PublicationReceipt {
                    provider_id: PROVIDER_ID,
                    destination: event.identities.destination.clone(),
                    producer_generation: self.settings.generation.clone(),
                    acknowledged_at: answer.observed_at,
                    record_reference,
                }),
                None => PublicationOutcome::Indeterminate(outcome::UNCERTAIN),
            },
            AppendOutcome::Refused(refusal) => {
                PublicationOutcome::Rejected(outcome::refused(&refusal))
            }
            AppendOutcome::Uncertain(_) => PublicationOutcome::Indeterminate(outcome::UNCERTAIN),
            AppendOutcome::Latched(_) => PublicationOutcome::Rejected(outcome::LATCHED),
        }
    }
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for JournalPublisher {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        let record = match record_of(&request.event) {
            Ok(record) => record,
            Err(failure) => return PublicationOutcome::Rejected(failure),
        };
        let remaining = self.clock.now().until(request.deadline);
        if remaining.is_zero() {
            return PublicationOutcome::Rejected(outcome::NO_TIME_LEFT);
        }
        let mut receiver = self.append(record, request);
        match timeout(remaining, &mut receiver).await {
            Ok(Ok(answer)) => self.outcome(answer, &request.event),
            // The callback always sends, so a closed channel cannot be seen here; if it were,
            // nothing would be known.
            Ok(Err(_)) => PublicationOutcome::Indeterminate(outcome::UNCERTAIN),
            Err(_) => {
                receiver.close();
                // An answer that slipped in between the deadline and the closing is late too.
                if let Ok(missed) = receiver.try_recv() {
                    LateName::of(request, &self.settings.generation).offer(missed, &self.late);
                }
                PublicationOutcome::Indeterminate(outcome::MISSED_DEADLINE)
            }
        }
    }
}

#[async_trait::async_trait]
impl PublicationAdmissionPort for JournalPublisher {
    async fn admit(&self) -> Admission {
        if self.journal.failure().is_some() {
            return Admission::Refused(AdmissionRefusal::ProviderNotReady);
        }
        let acquire = Arc::clone(&self.permits).acquire_owned();
        match timeout(self.settings.admission_wait, acquire).await {
            Ok(Ok(permit)) => Admission::Granted(PublicationPermit::new(
                self.settings.generation.clone(),
                Box::new(Permit { _permit: permit }),
            )),
            Ok(Err(_)) => Admission::Refused(AdmissionRefusal::Closing),
            Err(_) => Admission::Refused(AdmissionRefusal::Saturated),
        }
    }
}

impl LateName {
    fn of(request: &PublicationRequest, generation: &ProducerGeneration) -> LateName {
        LateName {
            attempt: request.attempt.clone(),
            generation: generation.clone(),
            binding_revision: request.event.binding_revision.clone(),
        }
    }

    /// Queues a commit; other answers were not acknowledgements.
    fn offer(self, missed: Answer, late: &LateObservationQueue) {
        let AppendOutcome::Committed { sequence } = missed.outcome else {
            return;
        };
        let Some(record_reference) = reference(sequence) else {
            return;
        };
        late.offer(|id: LateObservationId| LatePublicationObservation {
            id,
            attempt: self.attempt,
            producer_generation: self.generation,
            binding_revision: self.binding_revision,
            certainty: domain_core::publication::AcceptanceCertainty::Accepted,
            observed_at: missed.observed_at,
            record_reference,
        });
    }
}

fn record_of(event: &StoredOutboxEvent) -> Result<NewRecord, PublicationFailure> {
    let traceparent = event.trace.as_ref().map(|trace| trace.parent());
    let published = EnvelopePublished::new(
        event.identities.occurred_at,
        event.partition_key.digest(),
        traceparent,
        &event.envelope,
    )
    .map_err(|_| outcome::UNSUITABLE)?;
    published.to_record().map_err(|_| outcome::UNSUITABLE)
}

/// `journal:` and the sequence: at most 27 printable characters, so it is always a reference.
fn reference(sequence: Sequence) -> Option<ProviderRecordReference> {
    ProviderRecordReference::parse(format!("journal:{sequence}")).ok()
}
