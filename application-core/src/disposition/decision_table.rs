//! Every disposition against every state.
//!
//! Invariant: the table is written out here and not derived from the transition function.

use super::*;
use crate::ports::OperatorAct;
use domain_core::delivery::Claim;
use domain_core::identity::{ActReference, EventId, OperatorId, ReasonCode, ReasonText, WorkerId};
use std::time::Duration;

const NOW: DatabaseInstant = DatabaseInstant::from_epoch_micros(1_000_000_000);

fn claim(until: DatabaseInstant) -> DeliveryState {
    DeliveryState::Claimed(Claim {
        token: ClaimToken::from_random([7; 16]),
        owner: WorkerId::parse("w").expect("worker"),
        until,
    })
}

/// Every state; a claim once live and once lapsed at this very instant.
fn states() -> Vec<DeliveryState> {
    vec![
        DeliveryState::Ready,
        claim(NOW.plus(Duration::from_micros(1))),
        claim(NOW),
        DeliveryState::RetryWait {
            due: NOW.plus(Duration::from_secs(60)),
        },
        DeliveryState::DeliveryRecorded,
        DeliveryState::Exhausted,
        DeliveryState::Hold,
        DeliveryState::Skipped,
        DeliveryState::Compensated,
        DeliveryState::LegacyRecordedUnverified,
        DeliveryState::LegacyAcceptedUnverified,
    ]
}

fn current(state: DeliveryState) -> CurrentDelivery {
    CurrentDelivery {
        generation: DeliveryGeneration::FIRST,
        row_version: RowVersion::FIRST,
        state,
        authority: DispatchAuthority::PollingV2,
        event_created_at: DatabaseInstant::from_epoch_micros(0),
        now: NOW,
    }
}

fn command(disposition: Disposition) -> DispositionCommand {
    DispositionCommand {
        event_id: EventId::parse("e1").expect("event"),
        generation: DeliveryGeneration::FIRST,
        row_version: RowVersion::FIRST,
        disposition,
        act: OperatorAct {
            operator: OperatorId::parse("ops").expect("operator"),
            reason_code: ReasonCode::parse("TEST").expect("code"),
            reason: ReasonText::parse("because").expect("reason"),
            reference: approval(),
        },
    }
}

fn approval() -> ActReference {
    ActReference::parse("CHG-1").expect("reference")
}

fn window(horizon: u64) -> PublicationWindow {
    PublicationWindow::new(Duration::from_secs(60), Duration::from_secs(horizon)).expect("window")
}

fn verdicts(disposition: &Disposition) -> Vec<Result<String, String>> {
    states()
        .into_iter()
        .map(
            |state| match decide(&current(state), &command(disposition.clone()), true) {
                Ok(DispositionDecision::Move { to, lapsed }) => Ok(format!(
                    "{}{}",
                    to.as_str(),
                    if lapsed.is_some() { " abandoning" } else { "" }
                )),
                Ok(DispositionDecision::Requeue(_)) => Ok("requeued".into()),
                Err(DispositionConflict::ClaimLive { .. }) => Err("live".into()),
                Err(DispositionConflict::State(_)) => Err("state".into()),
                Err(other) => Err(format!("{other:?}")),
            },
        )
        .collect()
}

/// The row of one disposition: what each of [`states`] gives; `-` is refused for the state.
fn row(cells: [&str; 11]) -> Vec<Result<String, String>> {
    cells
        .into_iter()
        .map(|cell| match cell {
            "-" => Err("state".to_owned()),
            "live" => Err("live".to_owned()),
            moved => Ok(moved.to_owned()),
        })
        .collect()
}

#[test]
fn each_disposition_has_its_own_source_states() {
    let destructive = |to| row(["-", "live", "-", "-", "-", to, to, "-", "-", "-", "-"]);
    assert_eq!(
        verdicts(&Disposition::Hold),
        row([
            "HOLD",
            "live",
            "HOLD abandoning",
            "HOLD",
            "-",
            "HOLD",
            "-",
            "-",
            "-",
            "-",
            "-"
        ])
    );
    let skip = Disposition::Skip {
        approval: approval(),
    };
    assert_eq!(verdicts(&skip), destructive("SKIPPED"));
    let compensate = Disposition::Compensate {
        approval: approval(),
        compensating_event: EventId::parse("e2").expect("event"),
    };
    assert_eq!(verdicts(&compensate), destructive("COMPENSATED"));
    let requeue = Disposition::Requeue {
        window: window(2000),
    };
    assert_eq!(verdicts(&requeue), destructive("requeued"));
    let accept = Disposition::AcceptLegacy {
        approval: approval(),
    };
    assert_eq!(
        verdicts(&accept),
        row([
            "-",
            "live",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "LEGACY_ACCEPTED_UNVERIFIED",
            "-"
        ])
    );
}

#[test]
fn what_the_operator_saw_is_compared_first() {
    let second = DeliveryGeneration::new(2).expect("generation");
    let moved = RowVersion::new(9).expect("version");
    let mut found = current(DeliveryState::DeliveryRecorded);
    found.row_version = moved;
    assert_eq!(
        decide(&found, &command(Disposition::Hold), true),
        Err(DispositionConflict::RowVersion(moved))
    );
    found.generation = second;
    assert_eq!(
        decide(&found, &command(Disposition::Hold), true),
        Err(DispositionConflict::Generation(second))
    );
}

#[test]
fn a_requeue_needs_a_polling_epoch_and_time_before_the_horizon() {
    let requeue = |horizon| {
        command(Disposition::Requeue {
            window: window(horizon),
        })
    };
    let held = || current(DeliveryState::Hold);
    assert_eq!(
        decide(&held(), &requeue(2000), false),
        Err(DispositionConflict::NoPollingEpoch)
    );
    let legacy = CurrentDelivery {
        authority: DispatchAuthority::LegacyPolling,
        ..held()
    };
    assert_eq!(
        decide(&legacy, &requeue(2000), true),
        Err(DispositionConflict::NoPollingEpoch)
    );
    // The horizon ends at this very instant, and a second later.
    assert_eq!(
        decide(&held(), &requeue(1000), true),
        Err(DispositionConflict::HorizonPassed(NOW))
    );
    assert_eq!(
        decide(&held(), &requeue(1001), true),
        Ok(DispositionDecision::Requeue(window(1001)))
    );
}

#[test]
fn an_event_does_not_compensate_itself() {
    let itself = Disposition::Compensate {
        approval: approval(),
        compensating_event: EventId::parse("e1").expect("event"),
    };
    assert_eq!(
        decide(&current(DeliveryState::Hold), &command(itself), true),
        Err(DispositionConflict::NoCompensation)
    );
}
