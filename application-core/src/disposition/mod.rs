//! What a command does to the delivery that it met.
//!
//! Invariant: a pure function of the row as it is under its lock and the time read after it; what
//! the operator saw is compared before anything else (requirement 004 §18.6).

use crate::ports::{Disposition, DispositionCommand, DispositionConflict};
use domain_core::delivery::{
    DeliveryEvent, DeliveryState, DeliveryStateName, DispatchAuthority, PublicationWindow,
};
use domain_core::identity::{ClaimToken, DeliveryGeneration, RowVersion};
use domain_core::instant::DatabaseInstant;

/// The CURRENT generation under its lock.
#[derive(Debug, Clone)]
pub struct CurrentDelivery {
    /// Its generation.
    pub generation: DeliveryGeneration,
    /// Its row version.
    pub row_version: RowVersion,
    /// Its state.
    pub state: DeliveryState,
    /// Who may publish the event.
    pub authority: DispatchAuthority,
    /// The event's creation, by the database clock.
    pub event_created_at: DatabaseInstant,
    /// The database clock, read under the lock.
    pub now: DatabaseInstant,
}

/// What is to be written.
#[derive(Debug, PartialEq, Eq)]
pub enum DispositionDecision {
    /// The same generation goes to another state; a lapsed claim's attempt is closed first.
    Move {
        /// The other state.
        to: DeliveryStateName,
        /// The lapsed claim's token.
        lapsed: Option<ClaimToken>,
    },
    /// The next generation takes its place.
    Requeue(PublicationWindow),
}

/// Decides. `polling` says whether a polling epoch is ACTIVE and held.
///
/// # Errors
/// [`DispositionConflict`]; nothing is to be written.
pub fn decide(
    current: &CurrentDelivery,
    command: &DispositionCommand,
    polling: bool,
) -> Result<DispositionDecision, DispositionConflict> {
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
    Ok(DispositionDecision::Move {
        to: next.name(),
        lapsed: match &current.state {
            DeliveryState::Claimed(claim) => Some(claim.token),
            _ => None,
        },
    })
}

fn requeue(
    current: &CurrentDelivery,
    window: PublicationWindow,
    polling: bool,
) -> Result<DispositionDecision, DispositionConflict> {
    current.state.requeueable().map_err(|_| refused(current))?;
    // As Tx B: under a polling epoch, and only an event of that authority.
    if !polling || current.authority != DispatchAuthority::PollingV2 {
        return Err(DispositionConflict::NoPollingEpoch);
    }
    let last = window.requeue_deadline(current.event_created_at);
    if last <= current.now {
        return Err(DispositionConflict::HorizonPassed(last));
    }
    Ok(DispositionDecision::Requeue(window))
}

/// Why the state refuses: whoever disposes has to wait for a live claim, and only for that.
fn refused(current: &CurrentDelivery) -> DispositionConflict {
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
