//! What a command does to the delivery that it met.
//!
//! Invariant: a pure function of the row as it is under its lock and the time read after it; what
//! the operator saw is compared before anything else (requirement 004 §18.6).

use application_core::ports::{Disposition, DispositionCommand, DispositionConflict};
use domain_core::delivery::{
    DeliveryEvent, DeliveryState, DeliveryStateName, DispatchAuthority, PublicationWindow,
};
use domain_core::identity::{ClaimToken, DeliveryGeneration, RowVersion};
use domain_core::instant::DatabaseInstant;

/// The CURRENT generation under its lock.
pub(super) struct Current {
    pub(super) generation: DeliveryGeneration,
    pub(super) row_version: RowVersion,
    pub(super) state: DeliveryState,
    pub(super) authority: DispatchAuthority,
    pub(super) event_created_at: DatabaseInstant,
    pub(super) now: DatabaseInstant,
}

/// What is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The same generation goes to another state; a lapsed claim's attempt is closed first.
    Move {
        to: DeliveryStateName,
        lapsed: Option<ClaimToken>,
    },
    /// The next generation takes its place.
    Requeue(PublicationWindow),
}

/// Decides. `polling` says whether a polling epoch is ACTIVE and held.
pub(super) fn decide(
    current: &Current,
    command: &DispositionCommand,
    polling: bool,
) -> Result<Decision, DispositionConflict> {
    if current.generation != command.generation {
        return Err(DispositionConflict::Generation(current.generation));
    }
    if current.row_version != command.row_version {
        return Err(DispositionConflict::RowVersion(current.row_version));
    }
    let event = match &command.disposition {
        Disposition::Requeue { window } => return requeue(current, *window, polling),
        Disposition::Compensate {
            compensating_event, ..
        } if *compensating_event == command.event_id => {
            return Err(DispositionConflict::NoCompensation);
        }
        Disposition::Hold => DeliveryEvent::HeldByOperator { now: current.now },
        Disposition::Skip { .. } => DeliveryEvent::Skipped,
        Disposition::Compensate { .. } => DeliveryEvent::Compensated,
        Disposition::AcceptLegacy { .. } => DeliveryEvent::LegacyAccepted,
    };
    let next = current.state.next(&event).map_err(|_| refused(current))?;
    Ok(Decision::Move {
        to: next.name(),
        lapsed: match &current.state {
            DeliveryState::Claimed(claim) => Some(claim.token),
            _ => None,
        },
    })
}

fn requeue(
    current: &Current,
    window: PublicationWindow,
    polling: bool,
) -> Result<Decision, DispositionConflict> {
    current.state.requeueable().map_err(|_| refused(current))?;
    // As Tx B: under a polling epoch, and only an event of that authority.
    if !polling || current.authority != DispatchAuthority::PollingV2 {
        return Err(DispositionConflict::NoPollingEpoch);
    }
    let last = window.requeue_deadline(current.event_created_at);
    if last <= current.now {
        return Err(DispositionConflict::HorizonPassed(last));
    }
    Ok(Decision::Requeue(window))
}

/// Why the state refuses: whoever disposes has to wait for a live claim, and only for that.
fn refused(current: &Current) -> DispositionConflict {
    match &current.state {
        DeliveryState::Claimed(claim) if claim.until > current.now => {
            DispositionConflict::ClaimLive { until: claim.until }
        }
        state => DispositionConflict::State(state.name()),
    }
}

#[cfg(test)]
#[path = "decision_table.rs"]
mod tests;
