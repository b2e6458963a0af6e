//! What the operations' names stand for in the ports' own words.
//!
//! Invariant: fixed by its arguments, so both stores are asked the same.

use super::super::control::{approval, window};
use super::super::fixture::{EventSpec, LONG, event, failure, known, outcome_of, receipt};
use super::op::{Answer, Budget, Cover, SLOTS, What};
use crate::ports::{
    ClaimRequest, ClaimedDelivery, Disposition, FenceScope, KnownRecord, OutcomeRecord,
    SpentDelivery,
};
use domain_core::delivery::PublicationWindow;
use domain_core::identity::{DestinationBindingRevision, EventId, LogicalDestinationId};
use domain_core::publication::{PublicationOutcome, RelayDecision, RetryDisposition};
use std::sync::Arc;
use std::time::Duration;

/// Long enough to have passed, once waited for.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// The event in a slot, with a binding of its own, so that a process can know it alone.
pub(super) fn spec(slot: u8) -> EventSpec {
    let (aggregate, sequence, tolerant) = match slot {
        0..=2 => ("a", 1 + i64::from(slot), false),
        3 | 4 => ("b", i64::from(slot), false),
        5 | 6 => ("c", i64::from(slot), true),
        _ => ("a", 1, false),
    };
    let spec = event(of_slot(slot).as_str(), aggregate, sequence)
        .binding(revision(slot).as_str())
        .destination(destination(slot).as_str());
    if tolerant {
        spec.reorder_tolerant()
    } else {
        spec
    }
}

fn destination(slot: u8) -> LogicalDestinationId {
    let destination = match slot {
        7 => "conformance-others",
        _ => "conformance-events",
    };
    LogicalDestinationId::parse(destination).expect("destination")
}

pub(super) fn of_slot(slot: u8) -> EventId {
    EventId::parse(format!("e{slot}")).expect("event id")
}

pub(super) fn revision(slot: u8) -> DestinationBindingRevision {
    DestinationBindingRevision::parse(format!("conformance-events-r{slot}")).expect("revision")
}

pub(super) fn sendable(slots: impl IntoIterator<Item = u8>) -> Arc<[KnownRecord]> {
    slots
        .into_iter()
        .map(|slot| KnownRecord {
            destination: destination(slot),
            binding_revision: revision(slot),
            ..known()
        })
        .collect()
}

pub(super) fn budget_of(budget: Budget, mut request: ClaimRequest) -> ClaimRequest {
    match budget {
        Budget::Enough => {}
        Budget::NoTime => request.attempt_budget = 4 * LONG,
        Budget::OneAttempt => request.maximum_attempts = 1,
    }
    request
}

pub(super) fn ended(spent: &SpentDelivery) -> String {
    format!(
        "{} generation {} spent: {}",
        spent.event_id,
        spent.generation.value(),
        spent.reason.as_str()
    )
}

pub(super) fn record_of(claimed: &ClaimedDelivery, answer: Answer) -> OutcomeRecord {
    let rejected = |disposition| PublicationOutcome::Rejected(failure(disposition));
    let open = |disposition| PublicationOutcome::Indeterminate(failure(disposition));
    let soon = RelayDecision::Retry {
        delay: Duration::from_micros(1),
    };
    let (outcome, decision) = match answer {
        Answer::Acknowledged => (
            PublicationOutcome::Acknowledged(receipt(claimed)),
            RelayDecision::Record,
        ),
        Answer::RetrySoon => (rejected(RetryDisposition::RetryWithinBudget), soon),
        Answer::RetryLate => (
            rejected(RetryDisposition::RetryWithinBudget),
            RelayDecision::Retry { delay: LONG },
        ),
        Answer::OpenRetry => (open(RetryDisposition::RetryWithinBudget), soon),
        Answer::Exhausted => (rejected(RetryDisposition::NoRetry), RelayDecision::Exhaust),
        Answer::OpenExhausted => (open(RetryDisposition::NoRetry), RelayDecision::Exhaust),
        Answer::Misrouted => (
            PublicationOutcome::AcknowledgedMismatch(receipt(claimed)),
            RelayDecision::Hold,
        ),
    };
    outcome_of(claimed, outcome, decision)
}

pub(super) fn disposition(slot: u8, what: What) -> Disposition {
    match what {
        What::Hold => Disposition::Hold,
        What::Skip => Disposition::Skip {
            approval: approval(),
        },
        What::Compensate { itself } => Disposition::Compensate {
            approval: approval(),
            compensating_event: of_slot(if itself { slot } else { (slot + 1) % SLOTS }),
        },
        What::AcceptLegacy => Disposition::AcceptLegacy {
            approval: approval(),
        },
        What::Requeue => Disposition::Requeue { window: window() },
        What::RequeueTooLate => Disposition::Requeue {
            window: PublicationWindow::new(LONG, MOMENT).expect("window"),
        },
    }
}

pub(super) fn fence(cover: Cover) -> FenceScope {
    match cover {
        Cover::Everything => FenceScope::Everything,
        Cover::Destination(slot) => FenceScope::Destination(destination(slot)),
        Cover::Scope(slot) => FenceScope::OrderingScope(spec(slot).seal().partition_key().clone()),
        Cover::Event(slot) => FenceScope::Event(of_slot(slot)),
    }
}
