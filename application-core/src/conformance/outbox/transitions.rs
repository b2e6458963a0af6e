//! What the core's transition function allows, for the tables that stand again in SQL.
//!
//! Invariant: derived from [`DeliveryState::next`] alone.

use domain_core::delivery::{Claim, DeliveryEvent, DeliveryState, DeliveryStateName, Holder};
use domain_core::identity::{ClaimToken, WorkerId};
use domain_core::instant::DatabaseInstant;

/// A state of that name, in the core's types. Its claim is live at 0 and has lapsed at 1, so that
/// what only a lapsed claim allows can be asked for too.
pub(super) fn core_state(name: DeliveryStateName) -> DeliveryState {
    let due = DatabaseInstant::from_epoch_micros(0);
    match name {
        DeliveryStateName::Ready => DeliveryState::Ready,
        DeliveryStateName::Claimed => DeliveryState::Claimed(Claim {
            token: ClaimToken::from_random([0; 16]),
            owner: WorkerId::parse("w").expect("worker"),
            until: DatabaseInstant::from_epoch_micros(1),
        }),
        DeliveryStateName::RetryWait => DeliveryState::RetryWait { due },
        DeliveryStateName::DeliveryRecorded => DeliveryState::DeliveryRecorded,
        DeliveryStateName::Exhausted => DeliveryState::Exhausted,
        DeliveryStateName::Hold => DeliveryState::Hold,
        DeliveryStateName::Skipped => DeliveryState::Skipped,
        DeliveryStateName::Compensated => DeliveryState::Compensated,
        DeliveryStateName::LegacyRecordedUnverified => DeliveryState::LegacyRecordedUnverified,
        DeliveryStateName::LegacyAcceptedUnverified => DeliveryState::LegacyAcceptedUnverified,
    }
}

/// Whether the core's transition function has any event that leads from one state to the other.
pub fn core_allows(from: DeliveryStateName, to: DeliveryStateName) -> bool {
    let holder = Holder {
        token: ClaimToken::from_random([0; 16]),
        owner: WorkerId::parse("w").expect("worker"),
    };
    // At 0 the claim is live, at 1 it has lapsed.
    [0, 1].into_iter().any(|now| {
        let now = DatabaseInstant::from_epoch_micros(now);
        let holder = || holder.clone();
        let claim = Claim {
            token: ClaimToken::from_random([1; 16]),
            owner: WorkerId::parse("x").expect("worker"),
            until: DatabaseInstant::from_epoch_micros(9),
        };
        [
            DeliveryEvent::Claimed { claim, now },
            DeliveryEvent::BudgetSpent { now },
            DeliveryEvent::Renewed {
                holder: holder(),
                until: now,
                now,
            },
            DeliveryEvent::Acknowledged {
                holder: holder(),
                now,
            },
            DeliveryEvent::RetryScheduled {
                holder: holder(),
                due: now,
                now,
            },
            DeliveryEvent::AttemptsEnded {
                holder: holder(),
                now,
            },
            DeliveryEvent::HeldByWorker {
                holder: holder(),
                now,
            },
            DeliveryEvent::HeldByOperator { now },
            DeliveryEvent::Skipped,
            DeliveryEvent::Compensated,
            DeliveryEvent::LegacyAccepted,
        ]
        .iter()
        .any(|event| core_state(from).next(event).map(|next| next.name()) == Ok(to))
    })
}
