//! What Tx B does about the row it has locked.
//!
//! Invariant: a pure function of the row, the request and the database's clock, by the core's own
//! transition function; `claim.sql` and `spend_budget.sql` hold the same guard again.

use application_core::ports::{BudgetSpentReason, ClaimRequest};
use domain_core::delivery::{DeliveryEvent, DeliveryState};
use domain_core::identity::ClaimToken;
use domain_core::instant::DatabaseInstant;

/// A locked row, as far as the decision goes.
#[derive(Debug, Clone)]
pub(super) struct LockedHead {
    pub(super) state: DeliveryState,
    pub(super) attempt_count: u32,
    pub(super) deadline: DatabaseInstant,
    /// The database's clock, read under the lock.
    pub(super) now: DatabaseInstant,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Not due, or somebody's live claim.
    Leave,
    /// Take it, after closing the attempt of a lapsed claim.
    Claim { lapsed: Option<ClaimToken> },
    /// End its automatic budget, after closing the attempt of a lapsed claim.
    Spend {
        reason: BudgetSpentReason,
        lapsed: Option<ClaimToken>,
    },
}

/// Judges a locked row. The deadline is looked at first. Used-up attempts end only a lapsed claim:
/// a due retry beyond them was left by a provider at fault, which exhausts no record (requirement
/// 004 §17.4).
pub(super) fn judge(head: &LockedHead, request: &ClaimRequest) -> Judgement {
    let spent = DeliveryEvent::BudgetSpent { now: head.now };
    if head.state.next(&spent).is_err() {
        return Judgement::Leave;
    }
    let lapsed = match &head.state {
        DeliveryState::Claimed(claim) => Some(claim.token),
        _ => None,
    };
    if head.now.plus(request.attempt_budget) > head.deadline {
        Judgement::Spend {
            reason: BudgetSpentReason::Deadline,
            lapsed,
        }
    } else if lapsed.is_some() && head.attempt_count >= request.maximum_attempts {
        Judgement::Spend {
            reason: BudgetSpentReason::Attempts,
            lapsed,
        }
    } else {
        Judgement::Claim { lapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_core::delivery::Claim;
    use domain_core::identity::{ProducerGeneration, PublicationAttemptId, WorkerId};
    use std::sync::Arc;
    use std::time::Duration;

    const NOW: DatabaseInstant = DatabaseInstant::from_epoch_micros(1_000_000);

    fn at(micros: i64) -> DatabaseInstant {
        DatabaseInstant::from_epoch_micros(1_000_000 + micros)
    }

    fn request() -> ClaimRequest {
        ClaimRequest {
            owner: WorkerId::parse("w").expect("worker"),
            token: ClaimToken::from_random([1; 16]),
            attempt_id: PublicationAttemptId::parse("a").expect("attempt"),
            producer_generation: ProducerGeneration::parse("g").expect("generation"),
            lease: Duration::from_secs(1),
            attempt_budget: Duration::from_micros(10),
            maximum_attempts: 3,
            known: Arc::from([]),
        }
    }

    fn judged(state: DeliveryState, attempt_count: u32, deadline: DatabaseInstant) -> Judgement {
        let head = LockedHead {
            state,
            attempt_count,
            deadline,
            now: NOW,
        };
        judge(&head, &request())
    }

    fn claimed(until: DatabaseInstant) -> DeliveryState {
        DeliveryState::Claimed(Claim {
            token: ClaimToken::from_random([7; 16]),
            owner: WorkerId::parse("other").expect("worker"),
            until,
        })
    }

    #[test]
    fn only_a_claimable_row_is_touched() {
        for state in [
            DeliveryState::RetryWait { due: at(1) },
            claimed(at(1)),
            DeliveryState::DeliveryRecorded,
            DeliveryState::Exhausted,
            DeliveryState::Hold,
        ] {
            assert_eq!(judged(state, 9, at(-1)), Judgement::Leave);
        }
    }

    #[test]
    fn a_whole_attempt_must_fit_before_the_deadline() {
        let fits = Judgement::Claim { lapsed: None };
        let spent = Judgement::Spend {
            reason: BudgetSpentReason::Deadline,
            lapsed: None,
        };
        assert_eq!(judged(DeliveryState::Ready, 0, at(10)), fits);
        assert_eq!(judged(DeliveryState::Ready, 0, at(9)), spent);
        let due = DeliveryState::RetryWait { due: NOW };
        assert_eq!(judged(due, 1, at(9)), spent);
    }

    #[test]
    fn used_up_attempts_end_a_lapsed_claim_and_nothing_else() {
        let lapsed = Some(ClaimToken::from_random([7; 16]));
        assert_eq!(
            judged(claimed(NOW), 3, at(10)),
            Judgement::Spend {
                reason: BudgetSpentReason::Attempts,
                lapsed
            }
        );
        assert_eq!(
            judged(claimed(NOW), 3, at(9)),
            Judgement::Spend {
                reason: BudgetSpentReason::Deadline,
                lapsed
            }
        );
        assert_eq!(judged(claimed(NOW), 2, at(10)), Judgement::Claim { lapsed });
        let due = DeliveryState::RetryWait { due: NOW };
        assert_eq!(judged(due, 99, at(10)), Judgement::Claim { lapsed: None });
    }
}
