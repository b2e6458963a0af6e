//! The gate of an ordering scope, weakened.
//!
//! Invariant: an event is claimed only when nothing before it in its scope is open, as of the lock
//! on its row; a head that somebody holds blocks like one that nobody holds.

use super::planted;
use super::statements::{
    CLAIM, CLAIM_WINDOW, Found, LOCK_HEAD, SCAN, Span, Window, claim, claim_window, lock_head, scan,
};
use crate::harness::PostgresHarness;
use crate::sample::{append, event, event_id, nothing, request};
use application_core::conformance::outbox::OutboxHarness as _;
use domain_core::delivery::DeliveryStateName;
use sqlx::{Connection as _, Executor as _, Row as _};

/// The gate's last line; another condition after it makes the gate see less.
const GATE: &str = "< (d.aggregate_sequence, d.aggregate_event_index)";

/// Whether the successor was claimed although its head is open.
async fn overtaken(h: &PostgresHarness) -> bool {
    let head = h.delivery(&event_id("head")).await.expect("delivery");
    assert_eq!(head.state, DeliveryStateName::Ready);
    let next = h.delivery(&event_id("next")).await.expect("delivery");
    next.state == DeliveryStateName::Claimed
}

/// The successor is found as its scope's head; then a smaller sequence commits, and only then is
/// the found row taken. Tells whether it went first.
async fn overtakes_what_came_since(lock: &str, window: Option<&str>) -> bool {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("next", "a", 2)).await;
    let mut session = h.place.session().await;
    let (found, _) = scan(&mut session, SCAN, Span::WHOLE, &request(1)).await;
    assert_eq!(found, ["next"]);
    append(&h.store, &event("head", "a", 1)).await;
    let mut tx = session.begin().await.expect("begin");
    let found = Found::fresh("next");
    if let Some(window) = window {
        let done = claim_window(&mut tx, window, found, &request(1)).await;
        assert_ne!(done, Window::Spent);
    } else if lock_head(&mut tx, lock, found).await.is_some() {
        let claimed = claim(&mut tx, CLAIM, found, &request(1)).await;
        assert!(claimed.is_some(), "claim.sql does not ask the gate again");
    }
    tx.commit().await.expect("committed");
    overtaken(&h).await
}

/// Planted bugs: no gate in the locking query, and a gate that begins at the mark below which a
/// worker once saw nothing open.
#[tokio::test]
async fn a_gate_that_the_lock_does_not_ask_is_caught() {
    let without = |shipped| planted(shipped, "NOT d.ordering_required", "true");
    let marked = |shipped| {
        planted(
            shipped,
            GATE,
            &format!("{GATE} AND earlier.aggregate_sequence >= 2"),
        )
    };
    for (lock, caught) in [
        (LOCK_HEAD.to_owned(), false),
        (without(LOCK_HEAD), true),
        (marked(LOCK_HEAD), true),
    ] {
        assert_eq!(overtakes_what_came_since(&lock, None).await, caught);
    }
    for (window, caught) in [
        (CLAIM_WINDOW.to_owned(), false),
        (without(CLAIM_WINDOW), true),
        (marked(CLAIM_WINDOW), true),
    ] {
        let wrong = overtakes_what_came_since(LOCK_HEAD, Some(&window)).await;
        assert_eq!(wrong, caught);
    }
}

/// Finds and locks in one query, and takes the first of each scope among what it locked.
const CANDIDATES: &str = "SELECT d.event_id, d.row_version FROM outbox_delivery AS d \
     WHERE d.claimable ORDER BY d.claim_lane, d.partition_key_text, d.aggregate_sequence, \
     d.aggregate_event_index LIMIT 1 FOR UPDATE SKIP LOCKED";

/// Planted bugs: SKIP LOCKED where candidates are found, or where the gate looks for what is
/// before. A head that somebody holds is not there then, and its successor goes first.
#[tokio::test]
async fn skip_locked_on_candidates_is_caught() {
    let last = "OFFSET 0";
    let skipping = "FOR UPDATE OF earlier SKIP LOCKED";
    let lock = planted(LOCK_HEAD, last, skipping);
    for (how, caught) in [
        (Finder::Shipped, false),
        (Finder::Lock(LOCK_HEAD), false),
        (Finder::Lock(&lock), true),
        (Finder::Candidates, true),
    ] {
        let h = PostgresHarness::fresh().await;
        append(&h.store, &event("head", "a", 1)).await;
        append(&h.store, &event("next", "a", 2)).await;
        let mut other = h.place.session().await;
        let mut holder = other.begin().await.expect("begin");
        holder
            .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'head' FOR UPDATE")
            .await
            .expect("locked");
        let mut session = h.place.session().await;
        let mut tx = session.begin().await.expect("begin");
        let next = Found::fresh("next");
        let found = match how {
            Finder::Shipped => {
                nothing(&h.store, &request(1)).await;
                None
            }
            Finder::Lock(text) => lock_head(&mut tx, text, next).await.map(|_| next),
            Finder::Candidates => {
                let row = tx.fetch_one(CANDIDATES).await.expect("a candidate");
                assert_eq!(row.get::<&str, _>("event_id"), "next");
                Some(next)
            }
        };
        if let Some(found) = found {
            assert!(claim(&mut tx, CLAIM, found, &request(1)).await.is_some());
        }
        tx.commit().await.expect("committed");
        holder.rollback().await.expect("released");
        assert_eq!(overtaken(&h).await, caught, "{how:?}");
    }
}

/// How a row is found and locked.
#[derive(Debug, Clone, Copy)]
enum Finder<'t> {
    /// By the store.
    Shipped,
    /// The successor by the text that locks one row.
    Lock(&'t str),
    /// By one query for both.
    Candidates,
}
