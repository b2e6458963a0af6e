//! The publish port on a journal.
//!
//! Invariant: each attempt has one outcome, decided by whichever comes first, the journal's answer
//! or the monotonic deadline. An answer that comes second never changes it; a commit among them
//! becomes one late observation. Giving up on an attempt withdraws nothing.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use application_core::event::StoredOutboxEvent;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{
    Admission, AdmissionRefusal, Admissions, LatePublicationObservationSource, MonotonicClockPort,
    OutboxMessagePublishPort, PermitGuard, PublicationAdmissionPort, PublicationPermit,
    PublicationRequest, WallClockPort,
};
use domain_core::identity::ProducerGeneration;
use domain_core::publication::{PublicationFailure, PublicationOutcome, PublicationReceipt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::pending::{Answer, AttemptNote, AwaitedAnswer, PendingAnswer, Waited, reference};
use super::record::EnvelopePublished;
use super::{PROVIDER_ID, outcome};
use crate::{AppendOutcome, Journal, NewRecord};

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
    wall_clock: Arc<dyn WallClockPort>,
    permits: Arc<Semaphore>,
    late: Arc<LateObservationQueue>,
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
        wall_clock: Arc<dyn WallClockPort>,
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

    /// Appends with a callback that answers in time or leaves a late observation.
    fn append(&self, record: NewRecord, request: &PublicationRequest) -> AwaitedAnswer {
        let note = AttemptNote {
            attempt: request.attempt.clone(),
            generation: self.settings.generation.clone(),
            binding_revision: request.event.binding_revision.clone(),
        };
        let (pending, awaited) = PendingAnswer::new(note, Arc::clone(&self.late));
        let wall_clock = Arc::clone(&self.wall_clock);
        self.journal.append_with(record, move |outcome| {
            let observed_at = wall_clock.now();
            pending.answer(Answer {
                outcome,
                observed_at,
            });
        });
        awaited
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
        match self.append(record, request).within(remaining).await {
            Waited::Answered(answer) => self.outcome(answer, &request.event),
            Waited::Elapsed => PublicationOutcome::Indeterminate(outcome::MISSED_DEADLINE),
            // The callback always answers; if it did not, nothing would be known.
            Waited::Vanished => PublicationOutcome::Indeterminate(outcome::UNCERTAIN),
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
            Ok(Ok(permit)) => Admission::Granted(self.guarded(permit)),
            Ok(Err(_)) => Admission::Refused(AdmissionRefusal::Closing),
            Err(_) => Admission::Refused(AdmissionRefusal::Saturated),
        }
    }

    async fn admit_up_to(&self, most: NonZeroU32) -> Admissions {
        let first = match self.admit().await {
            Admission::Granted(permit) => permit,
            Admission::Refused(refusal) => return Admissions::Refused(refusal),
        };
        let more = (1..most.get())
            .map_while(|_| Arc::clone(&self.permits).try_acquire_owned().ok())
            .map(|permit| self.guarded(permit));
        Admissions::Granted(std::iter::once(first).chain(more).collect())
    }
}

impl JournalPublisher {
    fn guarded(&self, permit: OwnedSemaphorePermit) -> PublicationPermit {
        PublicationPermit::new(
            self.settings.generation.clone(),
            Box::new(Permit { _permit: permit }),
        )
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
