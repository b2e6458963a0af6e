//! What the relay does about an outcome.
//!
//! Invariant: only an acknowledgement on the compiled destination records a delivery; a provider
//! at fault never exhausts a record (requirement 004 §§15.5, 17.4).

use super::{PublicationOutcome, RetryDisposition, RetryPolicy};
use crate::delivery::DeliveryStateName;
use std::time::Duration;

/// What a generation has used of its attempts, the one just made included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptBudget {
    /// Publication attempts made.
    pub used: u32,
}

/// The transition that the relay asks the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayDecision {
    /// `DELIVERY_RECORDED`.
    Record,
    /// `RETRY_WAIT`, due this long after the database's now.
    Retry {
        /// The wait.
        delay: Duration,
    },
    /// `EXHAUSTED`.
    Exhaust,
    /// `HOLD`.
    Hold,
}

impl RelayDecision {
    /// The state that the delivery moves to.
    pub fn state(self) -> DeliveryStateName {
        match self {
            Self::Record => DeliveryStateName::DeliveryRecorded,
            Self::Retry { .. } => DeliveryStateName::RetryWait,
            Self::Exhaust => DeliveryStateName::Exhausted,
            Self::Hold => DeliveryStateName::Hold,
        }
    }

    /// The wait before the next claim; zero where no claim follows.
    pub fn delay(self) -> Duration {
        match self {
            Self::Retry { delay } => delay,
            Self::Record | Self::Exhaust | Self::Hold => Duration::ZERO,
        }
    }
}

/// Chooses the transition. `random` chooses the jitter.
pub fn decide(
    outcome: &PublicationOutcome,
    budget: AttemptBudget,
    policy: &RetryPolicy,
    random: u64,
) -> RelayDecision {
    let retry = RelayDecision::Retry {
        delay: policy.delay(
            outcome.failure().map(|failure| failure.class),
            budget.used,
            random,
        ),
    };
    match (outcome, outcome.disposition()) {
        (PublicationOutcome::Acknowledged(_), _) => RelayDecision::Record,
        (PublicationOutcome::AcknowledgedMismatch(_), _) | (_, RetryDisposition::OperatorHold) => {
            RelayDecision::Hold
        }
        (_, RetryDisposition::StopProvider) => retry,
        (_, RetryDisposition::NoRetry) => RelayDecision::Exhaust,
        (_, RetryDisposition::RetryWithinBudget) => {
            if budget.used < policy.maximum_attempts() {
                retry
            } else {
                RelayDecision::Exhaust
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        FailureClass, FailureStage, ProviderRecordReference, PublicationFailure, PublicationReceipt,
    };
    use super::*;
    use crate::identity::{LogicalDestinationId, ProducerGeneration};
    use crate::instant::DatabaseInstant;

    fn receipt() -> PublicationReceipt {
        PublicationReceipt {
            provider_id: "test.v1",
            destination: LogicalDestinationId::parse("d").expect("destination"),
            producer_generation: ProducerGeneration::parse("g1").expect("generation"),
            acknowledged_at: DatabaseInstant::from_epoch_micros(1),
            record_reference: ProviderRecordReference::parse("r").expect("reference"),
        }
    }

    fn failure(disposition: RetryDisposition) -> PublicationFailure {
        PublicationFailure {
            stage: FailureStage::BrokerAck,
            class: FailureClass::BrokerUnavailable,
            disposition,
        }
    }

    #[test]
    fn every_decision_has_its_state_and_only_a_retry_waits() {
        let delay = Duration::from_secs(3);
        for (decision, state, wait) in [
            (RelayDecision::Record, "DELIVERY_RECORDED", Duration::ZERO),
            (RelayDecision::Retry { delay }, "RETRY_WAIT", delay),
            (RelayDecision::Exhaust, "EXHAUSTED", Duration::ZERO),
            (RelayDecision::Hold, "HOLD", Duration::ZERO),
        ] {
            assert_eq!((decision.state().as_str(), decision.delay()), (state, wait));
        }
    }

    /// Certainty and disposition are independent: the whole table, at and below the budget.
    #[test]
    fn every_outcome_has_its_decision() {
        let policy =
            RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(60), 3).expect("policy");
        let decide = |outcome: &PublicationOutcome, used| match decide(
            outcome,
            AttemptBudget { used },
            &policy,
            0,
        ) {
            RelayDecision::Record => "record",
            RelayDecision::Retry { .. } => "retry",
            RelayDecision::Exhaust => "exhaust",
            RelayDecision::Hold => "hold",
        };
        for used in [1, 3, 4] {
            assert_eq!(
                decide(&PublicationOutcome::Acknowledged(receipt()), used),
                "record"
            );
            assert_eq!(
                decide(&PublicationOutcome::AcknowledgedMismatch(receipt()), used),
                "hold"
            );
            for disposition in RetryDisposition::ALL {
                let within = if used < 3 { "retry" } else { "exhaust" };
                let expected = match disposition {
                    RetryDisposition::NoRetry => "exhaust",
                    RetryDisposition::RetryWithinBudget => within,
                    RetryDisposition::StopProvider => "retry",
                    RetryDisposition::OperatorHold => "hold",
                };
                for outcome in [
                    PublicationOutcome::Rejected(failure(*disposition)),
                    PublicationOutcome::Indeterminate(failure(*disposition)),
                ] {
                    assert_eq!(decide(&outcome, used), expected, "{outcome:?} {used}");
                }
            }
        }
    }
}
