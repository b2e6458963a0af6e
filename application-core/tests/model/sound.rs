//! Each world without a bug, explored whole.

use crate::bounds::Bounds;
use crate::explorations::{
    ANSWERS, AUTHORITY, COMPETITION, CRASH_LOOP, LATE_COMMITS, OPERATOR, SCOPES,
};
use crate::protocol::Protocol;
use stateright::{Checker as _, Model as _};
use std::time::Instant;

fn explore(bounds: Bounds) {
    let name = bounds.name;
    let began = Instant::now();
    let checker = Protocol::sound(bounds).checker().spawn_bfs().join();
    println!(
        "{name}: {} unique states, depth {}, {} ms",
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_millis()
    );
    assert!(checker.is_done(), "{name} was not explored whole");
    checker.assert_properties();
}

#[test]
fn two_tasks_compete_and_one_vanishes() {
    explore(COMPETITION);
}

#[test]
fn an_attempt_is_answered_late_or_never() {
    explore(ANSWERS);
}

#[test]
fn a_worker_vanishes_again_and_again() {
    explore(CRASH_LOOP);
}

#[test]
fn an_operator_intervenes() {
    explore(OPERATOR);
}

#[test]
fn a_blocked_scope_leaves_the_others_alone() {
    explore(SCOPES);
}

#[test]
fn writes_freeze_and_the_authority_changes() {
    explore(AUTHORITY);
}

#[test]
fn a_smaller_sequence_commits_late() {
    explore(LATE_COMMITS);
}
