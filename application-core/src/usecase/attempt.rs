//! One attempt on one claimed record: check, look at the lease, send.
//!
//! Invariant: the store is never touched here; a record whose row and document disagree, or whose
//! lease no longer covers a whole attempt, is not sent.

use super::{RelaySettings, verify_stored_record};
use crate::late_queue::LateObservationQueue;
use crate::ports::{
    ClaimedDelivery, EnvelopeCodec, LatePublicationObservation, MonotonicClockPort,
    OutboxMessagePublishPort, OutcomeRecord, PublicationRequest, RelayReport,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::ProducerGeneration;
use domain_core::instant::MonotonicInstant;
use domain_core::publication::{
    AttemptBudget, FailureClass, FailureStage, PublicationFailure, PublicationOutcome,
    RetryDisposition, decide,
};
use std::sync::Arc;

/// A claimed row and how its attempt ended.
#[derive(Debug)]
pub(super) struct Attempted {
    pub(super) claimed: ClaimedDelivery,
    pub(super) outcome: PublicationOutcome,
    /// What the row and its document disagree about; a name, never a value.
    pub(super) mismatch: Option<&'static str>,
}

/// The ports of an attempt.
#[derive(Clone)]
pub(super) struct Attempting {
    pub(super) publisher: Arc<dyn OutboxMessagePublishPort>,
    pub(super) codec: Arc<dyn EnvelopeCodec>,
    pub(super) clock: Arc<dyn MonotonicClockPort>,
}

impl Attempting {
    /// Checks and sends one claimed record. `claim_began` is read before Tx B, so what it leaves of
    /// the lease is never too long.
    pub(super) async fn attempt(
        &self,
        settings: &RelaySettings,
        claimed: ClaimedDelivery,
        claim_began: MonotonicInstant,
    ) -> Attempted {
        let (outcome, mismatch) = self.send(settings, &claimed, claim_began).await;
        Attempted {
            claimed,
            outcome,
            mismatch,
        }
    }

    async fn send(
        &self,
        settings: &RelaySettings,
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
        let remaining = settings.lease.saturating_sub(claim_began.until(now));
        if remaining < settings.attempt_budget {
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
            deadline: now.plus(settings.publish_budget),
        };
        (self.publisher.publish(&request).await, None)
    }
}

impl Attempted {
    /// What Tx C is asked for.
    pub(super) fn record(
        &self,
        settings: &RelaySettings,
        producer_generation: ProducerGeneration,
        jitter: u64,
    ) -> OutcomeRecord {
        let budget = AttemptBudget {
            used: self.claimed.attempt_count,
        };
        OutcomeRecord {
            attempt: self.claimed.attempt.clone(),
            owner: self.claimed.owner.clone(),
            producer_generation,
            binding_revision: self.claimed.event.binding_revision.clone(),
            outcome: self.outcome.clone(),
            decision: decide(&self.outcome, budget, &settings.retry, jitter),
        }
    }

    /// Leaves to the journal what the broker acknowledged to a claim that lapsed before its Tx C.
    pub(super) fn leave_late(
        &self,
        producer_generation: &ProducerGeneration,
        late: &LateObservationQueue,
    ) {
        let Some(receipt) = self.outcome.receipt() else {
            return;
        };
        late.offer(|id| LatePublicationObservation {
            id,
            attempt: self.claimed.attempt.clone(),
            producer_generation: producer_generation.clone(),
            binding_revision: self.claimed.event.binding_revision.clone(),
            certainty: self.outcome.certainty(),
            observed_at: receipt.acknowledged_at,
            record_reference: receipt.record_reference.clone(),
        });
    }

    /// What is told once it is persisted.
    pub(super) fn report(&self, state: DeliveryStateName) -> RelayReport {
        let claimed = &self.claimed;
        RelayReport {
            event_id: claimed.attempt.event_id.clone(),
            generation: claimed.attempt.generation,
            contract_id: claimed.event.identities.contract_id.clone(),
            destination: claimed.event.identities.destination.clone(),
            attempt_id: claimed.attempt.attempt_id.clone(),
            attempt_count: claimed.attempt_count,
            state,
            certainty: self.outcome.certainty(),
            failure: self.outcome.failure(),
            mismatch: self.mismatch,
        }
    }
}
