//! Each planted bug, with the property that it breaks.
//!
//! Invariant: the counterexample is the shortest there is (breadth first, one thread), and the
//! same world without the bug has none (`sound`).

use crate::bounds::Bounds;
use crate::bugs::Bug;
use crate::explorations::{
    ANSWERS, AUTHORITY, COMPETITION, CRASH_LOOP, LATE_COMMITS, OPERATOR, SCOPES,
};
use crate::properties::*;
use crate::protocol::{Action, Protocol};
use stateright::{Checker as _, HasDiscoveries, Model as _};
use std::collections::BTreeSet;
use std::time::Instant;

/// The shortest steps that break `property`. The checker keeps the last counterexample of a batch,
/// so the depth is then bounded from above until no shorter one is left.
fn broken(bounds: Bounds, bug: Bug, property: &'static str) -> Vec<Action> {
    let began = Instant::now();
    let world = bounds.name;
    let (mut steps, states) = found(&bounds, bug, property, None)
        .unwrap_or_else(|| panic!("{bug:?} does not break {property:?} in {world}"));
    let mut without = 0;
    while without + 1 < steps.len() {
        let middle = usize::midpoint(without, steps.len());
        match found(&bounds, bug, property, Some(middle)) {
            Some((shorter, _)) => steps = shorter,
            None => without = middle,
        }
    }
    println!(
        "{bug:?} in {world}: {} steps, {states} unique states, {} ms: {steps:?}",
        steps.len(),
        began.elapsed().as_millis()
    );
    steps
}

/// Some steps that break `property`, at most `limit`, and the states explored for them.
fn found(
    bounds: &Bounds,
    bug: Bug,
    property: &'static str,
    limit: Option<usize>,
) -> Option<(Vec<Action>, usize)> {
    let mut builder = Protocol::planted(bounds.clone(), bug)
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property])));
    if let Some(limit) = limit {
        // The checker counts the start as depth 1, and stops before the depth named.
        builder = builder.target_max_depth(limit + 2);
    }
    let checker = builder.spawn_bfs().join();
    let path = checker.discovery(property)?;
    Some((path.into_actions(), checker.unique_state_count()))
}

#[test]
fn the_start_of_the_transaction_judges_a_lease() {
    let steps = broken(
        COMPETITION,
        Bug::TransactionStartTime,
        STALE_CHANGES_NOTHING,
    );
    assert!(matches!(steps.last(), Some(Action::Record(_))), "{steps:?}");
    assert!(steps.contains(&Action::Tick), "{steps:?}");
}

#[test]
fn candidates_are_locked_with_skip_locked() {
    broken(COMPETITION, Bug::SkipLockedCandidates, HEADS_ONLY);
}

#[test]
fn candidates_locked_with_skip_locked_break_the_order_on_the_broker() {
    broken(COMPETITION, Bug::SkipLockedCandidates, SCOPE_ORDER);
}

#[test]
fn a_limit_comes_before_eligibility() {
    broken(SCOPES, Bug::LimitBeforeEligibility, SCAN_FINDS);
}

#[test]
fn a_limit_before_eligibility_starves_a_ready_scope_to_the_end() {
    broken(SCOPES, Bug::LimitBeforeEligibility, ACCOUNTED);
}

#[test]
fn a_found_head_is_locked_without_its_predicate() {
    broken(LATE_COMMITS, Bug::LockWithoutPredicate, HEADS_ONLY);
}

#[test]
fn an_outcome_ignores_the_lease() {
    broken(COMPETITION, Bug::OutcomeIgnoresLease, STALE_CHANGES_NOTHING);
}

#[test]
fn an_outcome_ignores_the_token() {
    broken(COMPETITION, Bug::OutcomeIgnoresToken, STALE_CHANGES_NOTHING);
}

#[test]
fn a_reclaim_keeps_the_token() {
    broken(COMPETITION, Bug::ReclaimKeepsToken, STALE_CHANGES_NOTHING);
}

#[test]
fn an_attempt_is_counted_at_its_outcome() {
    broken(CRASH_LOOP, Bug::CountAtOutcome, WITHIN_BUDGET);
}

#[test]
fn a_freeze_locks_nothing() {
    broken(AUTHORITY, Bug::FreezeWithoutLock, FROZEN_IS_QUIET);
}

#[test]
fn an_append_reads_the_epoch_without_a_lock() {
    broken(AUTHORITY, Bug::AppendReadsEpochUnlocked, APPEND_AUTHORITY);
}

#[test]
fn a_claim_reads_the_epoch_without_a_lock() {
    broken(AUTHORITY, Bug::ClaimReadsEpochUnlocked, CLAIM_AUTHORITY);
}

#[test]
fn a_stale_mark_is_truth_for_the_gate() {
    broken(LATE_COMMITS, Bug::MarkIsTruth, HEADS_ONLY);
}

#[test]
fn a_stale_mark_is_truth_for_the_scan() {
    broken(LATE_COMMITS, Bug::MarkIsTruth, ACCOUNTED);
}

#[test]
fn a_requeue_supersedes_nothing() {
    broken(OPERATOR, Bug::RequeueKeepsCurrent, ONE_CURRENT);
}

#[test]
fn a_late_acknowledgement_records() {
    broken(ANSWERS, Bug::LateAckChangesState, LATE_CHANGES_NOTHING);
}

#[test]
fn a_hold_leaves_the_attempt_open() {
    broken(OPERATOR, Bug::HoldLeavesAttemptOpen, CLOSED_ONCE);
}

#[test]
fn an_exhaustion_forgets_the_doubt() {
    broken(ANSWERS, Bug::ExhaustionForgetsDoubt, CERTAINTY_IS_TRUE);
}

#[test]
fn a_record_counts_once_the_client_has_it() {
    broken(COMPETITION, Bug::RecordsAtEnqueue, RECORDED_IS_PUBLISHED);
}
