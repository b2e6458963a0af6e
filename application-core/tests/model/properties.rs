//! What must always hold, and what must be reachable so that holding it means something.
//!
//! Invariant: a property judges the state or the evidence by its own reading; none of them asks
//! the rule it is about.

use crate::authority::writing;
use crate::bounds::{Bounds, MAXIMUM_ATTEMPTS};
use crate::protocol::{Action, Protocol};
use crate::state::{Append, Delivery, Epoch, Order, Row, State, Task, Wire, small};
use domain_core::authority::WriteAdmissionState;
use domain_core::publication::AcceptanceCertainty;
use stateright::{Model as _, Property};

pub(crate) const RECORDED_IS_PUBLISHED: &str = "a recorded delivery is on the broker";
pub(crate) const ONE_CURRENT: &str = "each event has one CURRENT generation";
pub(crate) const STALE_CHANGES_NOTHING: &str = "a stale or expired token changes nothing";
pub(crate) const LATE_CHANGES_NOTHING: &str = "a late acknowledgement changes no state";
pub(crate) const ONE_CLAIM_PER_SCOPE: &str = "at most one record of a scope is claimed";
pub(crate) const HEADS_ONLY: &str = "nothing is claimed behind an unresolved smaller sequence";
pub(crate) const SCOPE_ORDER: &str = "a scope keeps its order on the broker in the normal path";
pub(crate) const REGRESSION_SHOWS: &str =
    "without a release or a late commit, what comes behind a larger sequence came before";
pub(crate) const WITHIN_BUDGET: &str = "attempts stay within the budget";
pub(crate) const CLOSED_ONCE: &str = "an attempt is open while its claim stands, then closed once";
pub(crate) const CERTAINTY_IS_TRUE: &str = "NOT_ACCEPTED is said of what the broker never takes";
pub(crate) const CLAIM_AUTHORITY: &str = "no event is claimed under a retired epoch";
pub(crate) const APPEND_AUTHORITY: &str = "no event is appended under a retired epoch";
pub(crate) const FROZEN_IS_QUIET: &str = "frozen means no business write under way";
pub(crate) const SCAN_FINDS: &str = "while a head is eligible, a scan finds one";
pub(crate) const ACCOUNTED: &str =
    "at the end every event is recorded, released, or unresolved behind or as a blocked head";

/// An event is on the broker twice.
pub(crate) const DUPLICATE: &str = "a record is published twice";
/// A record comes behind a larger sequence of its scope.
pub(crate) const REGRESSION: &str = "a record comes behind a larger sequence";
/// A stale owner's acknowledgement is journalled after the reclaim.
pub(crate) const LATE_AFTER_RECLAIM: &str = "a late acknowledgement comes after the reclaim";
/// A task is about to record under a claim that is not its own any more.
pub(crate) const STALE_RECORDING: &str = "a task records under a lost claim";
/// A task is about to record under a lapsed claim that nobody took yet.
pub(crate) const LAPSED_RECORDING: &str = "a task records under a lapsed claim";
/// Everything went out.
pub(crate) const ALL_RECORDED: &str = "every event is recorded";
/// A budget ends in doubt.
pub(crate) const EXHAUSTED_IN_DOUBT: &str = "a delivery is exhausted with its acceptance open";
/// A budget ends without doubt.
pub(crate) const EXHAUSTED_UNACCEPTED: &str = "a delivery is exhausted and was never accepted";
/// A second generation goes out.
pub(crate) const REQUEUED_RECORDED: &str = "a requeued generation is recorded";
/// A released scope goes on.
pub(crate) const RELEASED_SUCCESSOR: &str = "a successor is recorded behind a skipped event";
/// One scope waits, another does not.
pub(crate) const READY_BEHIND_BLOCKED: &str = "a scope is recorded behind a blocked one";
/// A freeze succeeds after a write was under way.
pub(crate) const FROZEN_WITH_EVENTS: &str = "writes are frozen with an event committed";
/// A refused writer's event stays away while frozen, and what is there still drains.
pub(crate) const DRAINED_FROZEN: &str = "a delivery is recorded while writes are frozen";
/// The next authority's event has no delivery.
pub(crate) const CDC_EVENT: &str = "an event of the next authority is committed";
/// A smaller sequence commits behind a recorded one and goes out.
pub(crate) const LATE_COMMIT_RECORDED: &str = "a smaller sequence that committed late is recorded";
/// Behind a claim that stands, a smaller sequence commits and is claimed too.
pub(crate) const LATE_COMMIT_CLAIMED: &str = "a late smaller sequence is claimed beside a larger";

/// The properties of an exploration.
pub(crate) fn of(bounds: &Bounds) -> Vec<Property<Protocol>> {
    let mut properties = always();
    properties.extend(
        sometimes()
            .into_iter()
            .filter(|property| bounds.witnesses.contains(&property.name)),
    );
    properties
}

fn always() -> Vec<Property<Protocol>> {
    vec![
        Property::always(RECORDED_IS_PUBLISHED, |_, state: &State| {
            all_rows(state, |_, delivery| {
                delivery.row != Row::Recorded || published(state, delivery.event)
            })
        }),
        Property::always(ONE_CURRENT, |_, state: &State| {
            (0..state.events.len()).all(|event| {
                let generations = || {
                    state
                        .deliveries
                        .iter()
                        .filter(move |delivery| usize::from(delivery.event) == event)
                };
                generations().filter(|delivery| delivery.current).count()
                    == usize::from(generations().count() > 0)
            })
        }),
        Property::always(STALE_CHANGES_NOTHING, |_, state: &State| {
            !state.evidence.stale_change
        }),
        Property::always(LATE_CHANGES_NOTHING, |_, state: &State| {
            !state.evidence.late_change
        }),
        Property::always(ONE_CLAIM_PER_SCOPE, |_, state: &State| {
            (0..state.order.len()).all(|scope| {
                // The gate looks at smaller sequences alone (LATE_COMMIT_CLAIMED).
                state.order[scope] == Order::Regresses || claimed_in(state, scope) <= 1
            })
        }),
        Property::always(HEADS_ONLY, |_, state: &State| {
            !state.evidence.claimed_behind
        }),
        Property::always(SCOPE_ORDER, |_, state: &State| {
            regressions(state).all(|(scope, _)| state.order[usize::from(scope)] > Order::Kept)
        }),
        Property::always(REGRESSION_SHOWS, |_, state: &State| {
            regressions(state)
                .all(|(scope, first)| !first || state.order[usize::from(scope)] == Order::Regresses)
        }),
        Property::always(WITHIN_BUDGET, |_, state: &State| {
            all_rows(state, |_, delivery| delivery.made <= MAXIMUM_ATTEMPTS)
        }),
        Property::always(CLOSED_ONCE, |_, state: &State| {
            state.attempts.iter().enumerate().all(|(index, attempt)| {
                let delivery = &state.deliveries[usize::from(attempt.delivery)];
                let stands = matches!(delivery.row, Row::Claimed { .. })
                    && delivery.attempt.map(usize::from) == Some(index);
                attempt.closed == u8::from(!stands)
            })
        }),
        Property::always(CERTAINTY_IS_TRUE, |_, state: &State| {
            all_rows(state, |index, delivery| {
                delivery.row != Row::Exhausted
                    || delivery.certainty != Some(AcceptanceCertainty::NotAccepted)
                    || state.attempts.iter().enumerate().all(|(number, attempt)| {
                        usize::from(attempt.delivery) != index
                            || !(matches!(
                                attempt.wire,
                                Wire::InFlight | Wire::Unheard | Wire::Acknowledged
                            ) || state.broker.iter().any(|&on| usize::from(on) == number))
                    })
            })
        }),
        Property::always(CLAIM_AUTHORITY, |_, state: &State| {
            !state.evidence.claimed_retired
        }),
        Property::always(APPEND_AUTHORITY, |_, state: &State| {
            !state.evidence.appended_retired
        }),
        Property::always(FROZEN_IS_QUIET, |_, state: &State| {
            state.admission.0 != WriteAdmissionState::Frozen || !writing(state)
        }),
        Property::always(SCAN_FINDS, |protocol: &Protocol, state: &State| {
            let eligible = |delivery: &u8| protocol.eligible(state, *delivery);
            protocol.scan(state).iter().any(eligible)
                || !(0..state.deliveries.len())
                    .map(small)
                    .any(|delivery| eligible(&delivery))
        }),
        Property::always(ACCOUNTED, |protocol: &Protocol, state: &State| {
            let mut actions = Vec::new();
            protocol.actions(state, &mut actions);
            state.epoch != Epoch::Polling
                || !actions.into_iter().all(optional)
                || all_rows(state, |_, delivery| {
                    !delivery.current
                        || matches!(delivery.row, Row::Recorded | Row::Skipped)
                        || unresolved(delivery)
                        || waits_for_operator(state, delivery)
                })
        }),
    ]
}

fn sometimes() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes(DUPLICATE, |_, state: &State| {
            state.published().enumerate().any(|(index, event)| {
                state
                    .published()
                    .take(index)
                    .any(|earlier| earlier == event)
            })
        }),
        Property::sometimes(REGRESSION, |_, state: &State| {
            regressions(state).next().is_some()
        }),
        Property::sometimes(LATE_AFTER_RECLAIM, |_, state: &State| {
            state.attempts.iter().enumerate().any(|(index, attempt)| {
                let delivery = &state.deliveries[usize::from(attempt.delivery)];
                attempt.late && delivery.attempt.map(usize::from) != Some(index)
            })
        }),
        Property::sometimes(STALE_RECORDING, |_, state: &State| {
            recording(state, |delivery, attempt| {
                delivery.attempt != Some(attempt) && matches!(delivery.row, Row::Claimed { .. })
            })
        }),
        Property::sometimes(LAPSED_RECORDING, |_, state: &State| {
            recording(state, |delivery, attempt| {
                delivery.attempt == Some(attempt)
                    && matches!(delivery.row, Row::Claimed { until, .. } if until <= state.clock)
            })
        }),
        Property::sometimes(ALL_RECORDED, |_, state: &State| {
            state.deliveries.len() >= state.events.len()
                && all_rows(state, |_, delivery| {
                    !delivery.current || delivery.row == Row::Recorded
                })
        }),
        Property::sometimes(EXHAUSTED_IN_DOUBT, |_, state: &State| {
            exhausted(state, AcceptanceCertainty::Indeterminate)
        }),
        Property::sometimes(EXHAUSTED_UNACCEPTED, |_, state: &State| {
            exhausted(state, AcceptanceCertainty::NotAccepted)
        }),
        Property::sometimes(REQUEUED_RECORDED, |_, state: &State| {
            state.deliveries.len() > state.events.len()
                && !all_rows(state, |index, delivery| {
                    index < state.events.len() || delivery.row != Row::Recorded
                })
        }),
        Property::sometimes(RELEASED_SUCCESSOR, |_, state: &State| {
            behind(state, Row::Skipped, false)
        }),
        Property::sometimes(READY_BEHIND_BLOCKED, |_, state: &State| {
            behind(state, Row::Exhausted, true)
        }),
        Property::sometimes(FROZEN_WITH_EVENTS, |_, state: &State| {
            state.admission.0 == WriteAdmissionState::Frozen && !state.deliveries.is_empty()
        }),
        Property::sometimes(DRAINED_FROZEN, |_, state: &State| {
            state.admission.0 == WriteAdmissionState::Frozen
                && !state.broker.is_empty()
                && !all_rows(state, |_, delivery| delivery.row != Row::Recorded)
        }),
        Property::sometimes(CDC_EVENT, |_, state: &State| {
            state
                .events
                .iter()
                .any(|event| event.append == Append::Committed(Epoch::Cdc))
        }),
        Property::sometimes(LATE_COMMIT_CLAIMED, |_, state: &State| {
            (0..state.order.len()).any(|scope| claimed_in(state, scope) > 1)
        }),
        Property::sometimes(LATE_COMMIT_RECORDED, |_, state: &State| {
            state.order.contains(&Order::Regresses)
                && !all_rows(state, |index, delivery| {
                    let event = state.event_of(small(index));
                    event.sequence > 0 || delivery.row != Row::Recorded
                })
        }),
    ]
}

/// What need not happen for the relay to have done its work.
fn optional(action: Action) -> bool {
    matches!(
        action,
        Action::Crash(_)
            | Action::Hold(_)
            | Action::Skip(_)
            | Action::Requeue(_)
            | Action::BeginAppend(_)
            | Action::Announce
            | Action::Resume
            | Action::Switch
    )
}

fn all_rows(state: &State, holds: impl Fn(usize, &Delivery) -> bool) -> bool {
    state
        .deliveries
        .iter()
        .enumerate()
        .all(|(index, delivery)| holds(index, delivery))
}

/// What the unresolved count shows and an operator has to end.
fn unresolved(delivery: &Delivery) -> bool {
    matches!(delivery.row, Row::Exhausted | Row::Hold)
}

/// Whether a smaller sequence of the scope stands unresolved before the delivery.
fn waits_for_operator(state: &State, delivery: &Delivery) -> bool {
    let event = &state.events[usize::from(delivery.event)];
    state.deliveries.iter().any(|other| {
        let earlier = &state.events[usize::from(other.event)];
        other.current
            && unresolved(other)
            && earlier.scope == event.scope
            && earlier.sequence < event.sequence
    })
}

fn claimed_in(state: &State, scope: usize) -> usize {
    let claimed = |delivery: &&Delivery| {
        usize::from(state.events[usize::from(delivery.event)].scope) == scope
            && delivery.current
            && matches!(delivery.row, Row::Claimed { .. })
    };
    state.deliveries.iter().filter(claimed).count()
}

fn published(state: &State, event: u8) -> bool {
    state
        .broker
        .iter()
        .any(|&attempt| state.deliveries[usize::from(state.delivery_of(attempt))].event == event)
}

/// Each record that comes behind a larger sequence: its scope, and whether its event was not
/// there before.
fn regressions(state: &State) -> impl Iterator<Item = (u8, bool)> {
    state
        .published()
        .enumerate()
        .filter(|(index, event)| {
            state
                .published()
                .take(*index)
                .any(|other| other.scope == event.scope && other.sequence > event.sequence)
        })
        .map(|(index, event)| {
            let first = !state.published().take(index).any(|other| other == event);
            (event.scope, first)
        })
}

fn recording(state: &State, holds: impl Fn(&Delivery, u8) -> bool) -> bool {
    state.tasks.iter().any(|task| match *task {
        Task::Recording { attempt, .. } => {
            let delivery = &state.deliveries[usize::from(state.delivery_of(attempt))];
            holds(delivery, attempt)
        }
        _ => false,
    })
}

fn exhausted(state: &State, certainty: AcceptanceCertainty) -> bool {
    state.deliveries.iter().any(|delivery| {
        delivery.row == Row::Exhausted && delivery.made > 0 && delivery.certainty == Some(certainty)
    })
}

/// A recorded delivery behind one in `row`, of another scope or of the same.
fn behind(state: &State, row: Row, other_scope: bool) -> bool {
    let scope = |delivery: &Delivery| state.events[usize::from(delivery.event)].scope;
    state.deliveries.iter().any(|first| {
        first.row == row
            && state.deliveries.iter().any(|second| {
                second.row == Row::Recorded
                    && second.event > first.event
                    && (scope(first) != scope(second)) == other_scope
            })
    })
}
