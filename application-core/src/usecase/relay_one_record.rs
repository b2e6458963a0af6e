//! One turn of the relay: permit, Tx B, publish, Tx C, for one record at most.
//!
//! Invariant: nothing is claimed without a permit, nothing is sent without a journalled attempt
//! and a lease that outlasts it, no database transaction is open while the broker is awaited, and
//! nothing is reported before it is persisted (requirement 004 §§18.3, 18.8, 19.2).

use super::attempt::{Attempted, Attempting};
use crate::late_queue::LateObservationQueue;
use crate::ports::{
    Admission, AdmissionRefusal, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest,
    EntropyPort, EnvelopeCodec, FindAttemptError, KnownRecord, MonotonicClockPort,
    OutboxDeliveryPort, OutboxMessagePublishPort, OutcomeRecord, PublicationAdmissionPort,
    PublicationPermit, RecordError, RecordOutcome, RecordedAttempt, RelayReport, RelayReporter,
    TimerPort,
};
use domain_core::identity::{
    DeliveryGeneration, EventId, ProducerGeneration, PublicationAttemptId, WorkerId,
};
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{RetryDisposition, RetryPolicy};
use std::sync::Arc;
use std::time::Duration;

/// The first pause before Tx C is tried again; it doubles.
const RECORD_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_RECORD_PAUSE: Duration = Duration::from_secs(1);

/// What the relay was configured with; the configuration compiler proved the relations.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// This worker.
    pub owner: WorkerId,
    /// The claim's lease.
    pub lease: Duration,
    /// What one whole attempt may take, from after the claim to the end of Tx C.
    pub attempt_budget: Duration,
    /// What the publication may take of it.
    pub publish_budget: Duration,
    /// Attempts and backoff.
    pub retry: RetryPolicy,
    /// What this process can send.
    pub known: Arc<[KnownRecord]>,
}

/// What one turn did.
#[derive(Debug)]
pub enum RelayTurn {
    /// No permit; nothing was claimed.
    Refused(AdmissionRefusal),
    /// No eligible row.
    Idle,
    /// No eligible row so far; the next turn looks on from there.
    Searching,
    /// A row's budget was spent; it is `EXHAUSTED` and nothing was sent.
    BudgetSpent {
        /// The event.
        event_id: EventId,
        /// Its generation.
        generation: DeliveryGeneration,
        /// Why.
        reason: BudgetSpentReason,
    },
    /// An attempt ended and its outcome is persisted.
    Persisted {
        /// The transition.
        report: RelayReport,
        /// What happens to the producer next.
        disposition: RetryDisposition,
        /// Whether the reporter took the report.
        reported: bool,
    },
    /// The claim lapsed meanwhile; another worker decides, and nothing changed here.
    Stale {
        /// The event.
        event_id: EventId,
        /// The attempt that recorded nothing.
        attempt_id: PublicationAttemptId,
    },
}

/// Why a turn has no result. Every row is left as it was or claimed until its lease lapses.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Tx B failed.
    #[error("the relay could not claim")]
    Claim(#[source] ClaimError),
    /// Tx B was not answered, and the look-up failed too.
    #[error("the relay does not know whether it claimed")]
    ClaimUnknown(#[source] FindAttemptError),
    /// Tx C failed; the lease will lapse and the record may be sent again.
    #[error("the relay could not record the outcome of event {event_id}")]
    Record {
        /// The event.
        event_id: EventId,
        /// Why.
        #[source]
        source: RecordError,
    },
    /// Tx C was not answered, and the look-up failed too.
    #[error("the relay does not know whether it recorded the outcome of event {event_id}")]
    RecordUnknown {
        /// The event.
        event_id: EventId,
        /// Why.
        #[source]
        source: FindAttemptError,
    },
}

/// The ports of a turn.
#[derive(Clone)]
pub struct RelayOneRecord {
    /// Permits.
    pub admission: Arc<dyn PublicationAdmissionPort>,
    /// Tx B and Tx C.
    pub deliveries: Arc<dyn OutboxDeliveryPort>,
    /// The broker.
    pub publisher: Arc<dyn OutboxMessagePublishPort>,
    /// Reads identities back before a send.
    pub codec: Arc<dyn EnvelopeCodec>,
    /// The process's monotonic clock.
    pub clock: Arc<dyn MonotonicClockPort>,
    /// Pauses between tries of Tx C.
    pub timer: Arc<dyn TimerPort>,
    /// Tokens, attempt ids and jitter.
    pub entropy: Arc<dyn EntropyPort>,
    /// Told after each transition.
    pub reporter: Arc<dyn RelayReporter>,
    /// Takes acknowledgements whose claim lapsed before they were recorded.
    pub late: Arc<LateObservationQueue>,
    /// Bounds.
    pub settings: RelaySettings,
}

impl RelayOneRecord {
    /// One turn.
    ///
    /// # Errors
    /// [`RelayError`]; the next turn may be taken after a pause.
    pub async fn execute(&self) -> Result<RelayTurn, RelayError> {
        let permit = match self.admission.admit().await {
            Admission::Granted(permit) => permit,
            Admission::Refused(refusal) => return Ok(RelayTurn::Refused(refusal)),
        };
        let claim_began = self.clock.now();
        let claimed = match self.claim(&permit).await? {
            ClaimOutcome::Claimed(claimed) => *claimed,
            ClaimOutcome::Nothing => return Ok(RelayTurn::Idle),
            ClaimOutcome::Unfinished => return Ok(RelayTurn::Searching),
            ClaimOutcome::BudgetSpent {
                event_id,
                generation,
                reason,
            } => {
                return Ok(RelayTurn::BudgetSpent {
                    event_id,
                    generation,
                    reason,
                });
            }
        };
        let attempting = Attempting {
            publisher: Arc::clone(&self.publisher),
            codec: Arc::clone(&self.codec),
            clock: Arc::clone(&self.clock),
        };
        let attempted = attempting
            .attempt(&self.settings, claimed, claim_began)
            .await;
        // Never later than the store's end of the lease.
        let lapses = claim_began.plus(self.settings.lease);
        self.record(&attempted, permit.generation().clone(), lapses)
            .await
    }

    /// Tx B, looked up when its answer was lost.
    async fn claim(&self, permit: &PublicationPermit) -> Result<ClaimOutcome, RelayError> {
        let request = ClaimRequest {
            owner: self.settings.owner.clone(),
            token: self.entropy.claim_token(),
            attempt_id: self.entropy.attempt_id(),
            producer_generation: permit.generation().clone(),
            lease: self.settings.lease,
            attempt_budget: self.settings.attempt_budget,
            maximum_attempts: self.settings.retry.maximum_attempts(),
            known: Arc::clone(&self.settings.known),
        };
        match self.deliveries.claim_next(&request).await {
            Ok(outcome) => Ok(outcome),
            Err(ClaimError::OutcomeUnknown(_)) => {
                let found = self
                    .deliveries
                    .find_attempt(&request.token, &request.attempt_id)
                    .await
                    .map_err(RelayError::ClaimUnknown)?;
                // Not there yet may still become a claim whose commit was on its way; its lease
                // will lapse and the next owner closes its attempt.
                Ok(match found {
                    RecordedAttempt::Open(claimed) => ClaimOutcome::Claimed(claimed),
                    RecordedAttempt::Unknown
                    | RecordedAttempt::Closed(_)
                    | RecordedAttempt::Lost => ClaimOutcome::Nothing,
                })
            }
            Err(error) => Err(RelayError::Claim(error)),
        }
    }

    /// Tx C, then the report.
    async fn record(
        &self,
        attempted: &Attempted,
        producer_generation: ProducerGeneration,
        lapses: MonotonicInstant,
    ) -> Result<RelayTurn, RelayError> {
        let record = attempted.record(&self.settings, producer_generation, self.entropy.jitter());
        match self.persist(&record, lapses).await? {
            RecordOutcome::Recorded(state) => {
                let report = attempted.report(state);
                let reported = self.reporter.report(&report).is_ok();
                Ok(RelayTurn::Persisted {
                    report,
                    disposition: attempted.outcome.disposition(),
                    reported,
                })
            }
            RecordOutcome::Stale => {
                attempted.leave_late(&record.producer_generation, &self.late);
                Ok(RelayTurn::Stale {
                    event_id: record.attempt.event_id,
                    attempt_id: record.attempt.attempt_id,
                })
            }
        }
    }

    /// Tries Tx C for as long as the lease can still be held. After an unanswered commit the store
    /// is asked first, and a stale answer may only mean that the first commit did happen.
    async fn persist(
        &self,
        record: &OutcomeRecord,
        lapses: MonotonicInstant,
    ) -> Result<RecordOutcome, RelayError> {
        let mut unanswered = false;
        let mut pause = RECORD_PAUSE;
        loop {
            let trouble = match self.try_record(record, &mut unanswered).await {
                Ok(outcome) => return Ok(outcome),
                Err(trouble) => trouble,
            };
            if self.clock.now().plus(pause) >= lapses {
                return trouble.into_result(&record.attempt.event_id);
            }
            self.timer.pause(pause).await;
            pause = (pause * 2).min(LONGEST_RECORD_PAUSE);
        }
    }

    async fn try_record(
        &self,
        record: &OutcomeRecord,
        unanswered: &mut bool,
    ) -> Result<RecordOutcome, Trouble> {
        let trouble = match self.deliveries.record_outcome(record).await {
            Ok(RecordOutcome::Stale) if *unanswered => Trouble::StaleAfterSilence,
            Ok(outcome) => return Ok(outcome),
            Err(error @ RecordError::OutcomeUnknown(_)) => {
                *unanswered = true;
                Trouble::Record(error)
            }
            Err(error) => Trouble::Record(error),
        };
        if !*unanswered {
            return Err(trouble);
        }
        let found = self
            .deliveries
            .find_attempt(&record.attempt.claim_token, &record.attempt.attempt_id)
            .await
            .map_err(Trouble::LookUp)?;
        match found {
            RecordedAttempt::Closed(state) => Ok(RecordOutcome::Recorded(state)),
            RecordedAttempt::Lost | RecordedAttempt::Unknown => Ok(RecordOutcome::Stale),
            RecordedAttempt::Open(_) => Err(trouble),
        }
    }
}

/// Why one try of Tx C did not settle it.
enum Trouble {
    /// Tx C failed or was not answered, and the attempt is still open.
    Record(RecordError),
    /// The look-up after an unanswered Tx C failed.
    LookUp(FindAttemptError),
    /// Stale, but an unanswered try came before and the attempt is still open.
    StaleAfterSilence,
}

impl Trouble {
    fn into_result(self, event_id: &EventId) -> Result<RecordOutcome, RelayError> {
        let event_id = event_id.clone();
        match self {
            Self::Record(source) => Err(RelayError::Record { event_id, source }),
            Self::LookUp(source) => Err(RelayError::RecordUnknown { event_id, source }),
            Self::StaleAfterSilence => Ok(RecordOutcome::Stale),
        }
    }
}
