//! The one total transition function of a delivery.
//!
//! Invariant: a live claim is ended by its own token before its lease lapses, and by nobody else;
//! a lapsed claim records nothing, even before anyone reclaimed it (requirement 004 §§18.5–18.6).

use super::state::{Claim, DeliveryState, DeliveryStateName};
use crate::identity::{ClaimToken, WorkerId};
use crate::instant::DatabaseInstant;

/// Something that happens to a delivery. `now` is always the database clock, read under the row's
/// lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEvent {
    /// A worker takes the row: the initial claim, a due retry, or the reclaim of a lapsed claim.
    Claimed {
        /// The fresh claim.
        claim: Claim,
        /// Database time.
        now: DatabaseInstant,
    },
    /// The budget ended before a send: deadline passed, no full attempt left, or attempts used up.
    BudgetSpent {
        /// Database time.
        now: DatabaseInstant,
    },
    /// The holder extends its lease.
    Renewed {
        /// Whose claim.
        holder: Holder,
        /// The new end.
        until: DatabaseInstant,
        /// Database time.
        now: DatabaseInstant,
    },
    /// The holder saw the broker's acknowledgement.
    Acknowledged {
        /// Whose claim.
        holder: Holder,
        /// Database time.
        now: DatabaseInstant,
    },
    /// The holder's attempt failed and the budget lasts.
    RetryScheduled {
        /// Whose claim.
        holder: Holder,
        /// When to try next.
        due: DatabaseInstant,
        /// Database time.
        now: DatabaseInstant,
    },
    /// The holder's attempt failed for good, or used up the budget.
    AttemptsEnded {
        /// Whose claim.
        holder: Holder,
        /// Database time.
        now: DatabaseInstant,
    },
    /// The holder saw something only an operator may judge.
    HeldByWorker {
        /// Whose claim.
        holder: Holder,
        /// Database time.
        now: DatabaseInstant,
    },
    /// An audited operator pause.
    HeldByOperator {
        /// Database time.
        now: DatabaseInstant,
    },
    /// An audited release without publication.
    Skipped,
    /// An audited replacement by a compensating event.
    Compensated,
    /// An audited acceptance of a migrated record.
    LegacyAccepted,
}

/// Who says that the claim is theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The token presented.
    pub token: ClaimToken,
    /// The worker presenting it.
    pub owner: WorkerId,
}

/// Why an event does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefusal {
    /// The state has no such transition.
    #[error("the state has no such transition")]
    NotPermitted,
    /// The retry is not due yet.
    #[error("the retry is not due yet")]
    NotDue,
    /// Another worker's claim is still live.
    #[error("the claim has not lapsed")]
    ClaimLive,
    /// The presented claim has lapsed.
    #[error("the claim has lapsed")]
    ClaimLapsed,
    /// The presented claim is not the current one.
    #[error("the claim belongs to another worker")]
    NotHolder,
}

/// An event met a state that does not accept it; the state stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} does not apply to {}", from.as_str())]
pub struct IllegalTransition {
    /// The state that stays.
    pub from: DeliveryStateName,
    /// The refused event.
    pub event: &'static str,
    /// Why.
    #[source]
    pub refusal: TransitionRefusal,
}

impl DeliveryEvent {
    /// A short name for errors and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claim",
            Self::BudgetSpent { .. } => "budget spent",
            Self::Renewed { .. } => "renew",
            Self::Acknowledged { .. } => "acknowledge",
            Self::RetryScheduled { .. } => "schedule retry",
            Self::AttemptsEnded { .. } => "end attempts",
            Self::HeldByWorker { .. } => "hold by worker",
            Self::HeldByOperator { .. } => "hold by operator",
            Self::Skipped => "skip",
            Self::Compensated => "compensate",
            Self::LegacyAccepted => "accept legacy",
        }
    }
}

impl DeliveryState {
    /// The state after `event`.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the event does not apply; the state is unchanged.
    pub fn next(&self, event: &DeliveryEvent) -> Result<Self, IllegalTransition> {
        self.apply(event).map_err(|refusal| IllegalTransition {
            from: self.name(),
            event: event.name(),
            refusal,
        })
    }

    fn apply(&self, event: &DeliveryEvent) -> Result<Self, TransitionRefusal> {
        match event {
            DeliveryEvent::Claimed { claim, now } => {
                self.claimable(*now)?;
                Ok(Self::Claimed(claim.clone()))
            }
            DeliveryEvent::BudgetSpent { now } => {
                self.claimable(*now)?;
                Ok(Self::Exhausted)
            }
            DeliveryEvent::Renewed { holder, until, now } => {
                let claim = self.held_by(holder, *now)?;
                Ok(Self::Claimed(Claim {
                    until: *until,
                    ..claim.clone()
                }))
            }
            DeliveryEvent::Acknowledged { holder, now } => {
                self.held_by(holder, *now).map(|_| Self::DeliveryRecorded)
            }
            DeliveryEvent::RetryScheduled { holder, due, now } => self
                .held_by(holder, *now)
                .map(|_| Self::RetryWait { due: *due }),
            DeliveryEvent::AttemptsEnded { holder, now } => {
                self.held_by(holder, *now).map(|_| Self::Exhausted)
            }
            DeliveryEvent::HeldByWorker { holder, now } => {
                self.held_by(holder, *now).map(|_| Self::Hold)
            }
            DeliveryEvent::HeldByOperator { now } => match self {
                Self::Ready | Self::RetryWait { .. } | Self::Exhausted => Ok(Self::Hold),
                Self::Claimed(claim) if claim.until <= *now => Ok(Self::Hold),
                Self::Claimed(_) => Err(TransitionRefusal::ClaimLive),
                _ => Err(TransitionRefusal::NotPermitted),
            },
            DeliveryEvent::Skipped => self.disposable().map(|()| Self::Skipped),
            DeliveryEvent::Compensated => self.disposable().map(|()| Self::Compensated),
            DeliveryEvent::LegacyAccepted => match self {
                Self::LegacyRecordedUnverified => Ok(Self::LegacyAcceptedUnverified),
                _ => Err(TransitionRefusal::NotPermitted),
            },
        }
    }

    /// Whether an audited requeue may supersede the generation: from `EXHAUSTED` and `HOLD` alone.
    ///
    /// # Errors
    /// [`IllegalTransition`].
    pub fn requeueable(&self) -> Result<(), IllegalTransition> {
        self.disposable().map_err(|refusal| IllegalTransition {
            from: self.name(),
            event: "requeue",
            refusal,
        })
    }

    /// READY, a due retry, or a lapsed claim.
    fn claimable(&self, now: DatabaseInstant) -> Result<(), TransitionRefusal> {
        match self {
            Self::Ready => Ok(()),
            Self::RetryWait { due } if *due <= now => Ok(()),
            Self::RetryWait { .. } => Err(TransitionRefusal::NotDue),
            Self::Claimed(claim) if claim.until <= now => Ok(()),
            Self::Claimed(_) => Err(TransitionRefusal::ClaimLive),
            _ => Err(TransitionRefusal::NotPermitted),
        }
    }

    fn held_by(&self, holder: &Holder, now: DatabaseInstant) -> Result<&Claim, TransitionRefusal> {
        match self {
            Self::Claimed(claim) => {
                if claim.token != holder.token || claim.owner != holder.owner {
                    Err(TransitionRefusal::NotHolder)
                } else if claim.until <= now {
                    Err(TransitionRefusal::ClaimLapsed)
                } else {
                    Ok(claim)
                }
            }
            _ => Err(TransitionRefusal::NotPermitted),
        }
    }

    /// EXHAUSTED or HOLD: what an operator may dispose of.
    fn disposable(&self) -> Result<(), TransitionRefusal> {
        match self {
            Self::Exhausted | Self::Hold => Ok(()),
            _ => Err(TransitionRefusal::NotPermitted),
        }
    }
}

#[cfg(test)]
#[path = "transition_table.rs"]
mod tests;
