//! One turn of the relay: permit, Tx B, publish, Tx C, for one record at most.
//!
//! Invariant: nothing is claimed without a permit, nothing is sent without a journalled attempt
//! and a lease that outlasts it, no database transaction is open while the broker is awaited, and
//! nothing is reported before it is persisted (requirement 004 §§18.3, 18.8, 19.2).

use super::verify_stored_record;
use crate::ports::{
    Admission, AdmissionRefusal, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest,
    ClaimedDelivery, EntropyPort, EnvelopeCodec, FindAttemptError, KnownRecord, MonotonicClockPort,
    OutboxDeliveryPort, OutboxMessagePublishPort, OutcomeRecord, PublicationAdmissionPort,
    PublicationPermit, PublicationRequest, RecordError, RecordOutcome, RecordedAttempt,
    RelayReport, RelayReporter, TimerPort,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{
    DeliveryGeneration, EventId, ProducerGeneration, PublicationAttemptId, WorkerId,
};
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{
    AttemptBudget, FailureClass, FailureStage, PublicationFailure, PublicationOutcome,
    RetryDisposition, RetryPolicy, decide,
};
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
        let (outcome, mismatch) = self.attempt(&claimed, claim_began).await;
        let held = Held {
            claimed,
            lapses: claim_began.plus(self.settings.lease),
            mismatch,
        };
        self.record(held, permit.generation().clone(), outcome)
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

    /// Checks and sends one claimed record, and names what the row and its document disagree
    /// about. Never touches the store.
    async fn attempt(
        &self,
        claimed: &ClaimedDelivery,
        claim_began: MonotonicInstant,
    ) -> (PublicationOutcome, Option<&'static str>) {
        if let Err(mismatch) = verify_stored_record(self.codec.as_ref(), &claimed.event) {
            let outcome = PublicationOutcome::Rejected(PublicationFailure {
                stage: FailureStage::Serialization,
                class: FailureClass::RecordIntegrity,
                disposition: RetryDisposition::OperatorHold,
            });
            return (outcome, Some(mismatch.name()));
        }
        let now = self.clock.now();
        // The lease began after `claim_began`, so this remainder is never too long.
        let remaining = self.settings.lease.saturating_sub(claim_began.until(now));
        if remaining < self.settings.attempt_budget {
            let outcome = PublicationOutcome::Rejected(PublicationFailure {
                stage: FailureStage::LocalAdmission,
                class: FailureClass::DeadlineExceeded,
                disposition: RetryDisposition::RetryWithinBudget,
            });
            return (outcome, None);
        }
        let request = PublicationRequest {
            attempt: claimed.attempt.clone(),
            event: Arc::clone(&claimed.event),
            deadline: now.plus(self.settings.publish_budget),
        };
        (self.publisher.publish(&request).await, None)
    }

    /// Tx C, then the report.
    async fn record(
        &self,
        held: Held,
        producer_generation: ProducerGeneration,
        outcome: PublicationOutcome,
    ) -> Result<RelayTurn, RelayError> {
        let claimed = &held.claimed;
        let budget = AttemptBudget {
            used: claimed.attempt_count,
        };
        let decision = decide(
            &outcome,
            budget,
            &self.settings.retry,
            self.entropy.jitter(),
        );
        let record = OutcomeRecord {
            attempt: claimed.attempt.clone(),
            owner: claimed.owner.clone(),
            producer_generation,
            binding_revision: claimed.event.binding_revision.clone(),
            outcome,
            decision,
        };
        match self.persist(&record, held.lapses).await? {
            RecordOutcome::Recorded(state) => Ok(self.report(&held, &record, state)),
            RecordOutcome::Stale => Ok(RelayTurn::Stale {
                event_id: held.claimed.attempt.event_id,
                attempt_id: held.claimed.attempt.attempt_id,
            }),
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

    fn report(&self, held: &Held, record: &OutcomeRecord, state: DeliveryStateName) -> RelayTurn {
        let claimed = &held.claimed;
        let report = RelayReport {
            event_id: claimed.attempt.event_id.clone(),
            generation: claimed.attempt.generation,
            contract_id: claimed.event.identities.contract_id.clone(),
            destination: claimed.event.identities.destination.clone(),
            attempt_id: claimed.attempt.attempt_id.clone(),
            attempt_count: claimed.attempt_count,
            state,
            certainty: record.outcome.certainty(),
            failure: record.outcome.failure(),
            mismatch: held.mismatch,
        };
        let reported = self.reporter.report(&report).is_ok();
        RelayTurn::Persisted {
            report,
            disposition: record.outcome.disposition(),
            reported,
        }
    }
}

/// A claimed row, how long it can be held, and what it contradicts.
struct Held {
    claimed: ClaimedDelivery,
    /// The lease's end, by this process's clock; never later than the store's.
    lapses: MonotonicInstant,
    mismatch: Option<&'static str>,
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
