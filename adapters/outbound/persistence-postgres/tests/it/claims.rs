//! Tx B and Tx C against other transactions.
//!
//! Invariant: a claim takes one row that nobody holds, and never the successor of a row that
//! somebody does.

use crate::harness::PostgresHarness;
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, request};
use crate::wait::{Wait, until};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    ClaimError, ClaimOutcome, ClaimRequest, OutboxDeliveryPort as _, OutboxQueryPort as _,
    RecordOutcome,
};
use domain_core::delivery::DeliveryStateName;
use sqlx::{Connection as _, Executor as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Eight workers on real threads: no row twice, and each scope in its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_workers_claim_disjoint_rows_in_order() {
    const SCOPES: u32 = 12;
    const EACH: i64 = 4;
    let h = PostgresHarness::fresh().await;
    for sequence in 0..EACH {
        for scope in 0..SCOPES {
            let id = format!("e-{scope}-{sequence}");
            append(&h.store, &event(&id, &format!("a{scope}"), sequence)).await;
        }
    }
    let total = usize::try_from(i64::from(SCOPES) * EACH).expect("small");
    let number = Arc::new(AtomicU32::new(1));
    let done = Arc::new(std::sync::Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (store, number, done) = (h.store.clone(), Arc::clone(&number), Arc::clone(&done));
            tokio::spawn(async move {
                let deliveries = store.deliveries();
                let wait = Wait::new("all rows");
                while done.lock().expect("done").len() < total {
                    let request = request(number.fetch_add(1, Ordering::Relaxed));
                    let outcome = deliveries.claim_next(&request).await.expect("claim");
                    let ClaimOutcome::Claimed(claimed) = outcome else {
                        wait.again().await;
                        continue;
                    };
                    let event = claimed.event.identities.clone();
                    // Noted before it is recorded, while the claim still holds its scope.
                    done.lock()
                        .expect("done")
                        .push((event.aggregate, event.order));
                    let recorded = deliveries.record_outcome(&acknowledged(&claimed)).await;
                    assert!(matches!(
                        recorded,
                        Ok(RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded))
                    ));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("a worker");
    }
    let done = done.lock().expect("done");
    let distinct: BTreeSet<_> = done.iter().collect();
    assert_eq!(distinct.len(), total);
    let mut by_scope: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (aggregate, order) in done.iter() {
        by_scope.entry(aggregate).or_default().push(*order);
    }
    for (aggregate, orders) in by_scope {
        assert!(orders.is_sorted(), "{aggregate:?}: {orders:?}");
    }
}

/// While another transaction holds a head, its scope is skipped and other scopes go on.
#[tokio::test]
async fn a_locked_head_skips_its_scope_and_never_yields_its_successor() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("head", "a", 1)).await;
    append(&h.store, &event("next", "a", 2)).await;
    append(&h.store, &event("other", "b", 1)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'head' FOR UPDATE")
        .await
        .expect("locked");
    let first = claimed(&h.store, &request(1)).await;
    assert_eq!(first.attempt.event_id.as_str(), "other");
    nothing(&h.store, &request(2)).await;
    holder.rollback().await.expect("released");
    let second = claimed(&h.store, &request(3)).await;
    assert_eq!(second.attempt.event_id.as_str(), "head");
}

/// More heads are held than one scan finds: the scan goes on behind them.
#[tokio::test]
async fn a_scan_goes_on_behind_heads_that_are_held() {
    let h = PostgresHarness::fresh().await;
    for number in 0..40 {
        append(
            &h.store,
            &event(&format!("e{number:02}"), &format!("a{number}"), 1),
        )
        .await;
    }
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id < 'e39' FOR UPDATE")
        .await
        .expect("locked");
    let claim = claimed(&h.store, &request(1)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "e39");
    nothing(&h.store, &request(2)).await;
    holder.rollback().await.expect("released");
}

/// A nested-loop plan must not lock or claim more than one row.
#[tokio::test]
async fn one_claim_takes_one_row_under_a_nested_loop_plan() {
    let h = PostgresHarness::fresh().await;
    for number in 0..50 {
        append(
            &h.store,
            &event(&format!("e{number}"), &format!("a{number}"), 1),
        )
        .await;
    }
    h.pool
        .execute("ANALYZE outbox_delivery")
        .await
        .expect("analyzed");
    let store = h
        .place
        .bare_store(&[
            "enable_hashjoin=off",
            "enable_mergejoin=off",
            "enable_material=off",
        ])
        .await;
    for number in 1..=5 {
        claimed(&store, &request(number)).await;
        let counts = store.query().counts().await.expect("counts");
        let claimed = counts.by_state.get(&DeliveryStateName::Claimed);
        assert_eq!(claimed, Some(&u64::from(number)));
    }
}

/// A transaction that waited for the row compares the lease after the wait: nothing may be
/// recorded once it lapsed, although it was live when the statement began.
#[tokio::test]
async fn a_lease_is_compared_after_the_wait_for_its_row() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let short = ClaimRequest {
        lease: Duration::from_millis(300),
        ..request(1)
    };
    let claim = claimed(&h.store, &short).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("locked");
    let (store, record) = (h.store.clone(), acknowledged(&claim));
    let recording = tokio::spawn(async move { store.deliveries().record_outcome(&record).await });
    waits_for_a_lock(&h, 1).await;
    until("the lease to lapse", async || {
        (h.database_now().await > claim.claim_until).then_some(())
    })
    .await;
    assert!(!recording.is_finished(), "it did not wait for the row");
    holder.rollback().await.expect("released");
    let recorded = recording.await.expect("joined");
    assert!(matches!(recorded, Ok(RecordOutcome::Stale)), "{recorded:?}");
    assert_eq!(h.journal(&event_id("e1")).await.len(), 1);
}

/// Waits until that many of the test's own sessions wait for a lock.
pub(crate) async fn waits_for_a_lock(h: &PostgresHarness, sessions: i64) {
    until("a session that waits for a lock", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = $1 AND wait_event_type = 'Lock'",
        )
        .bind(h.place.name())
        .fetch_one(&h.pool)
        .await
        .expect("activity");
        (waiting >= sessions).then_some(())
    })
    .await;
}

/// A row that the core's types refuse does not stand in the way of others, and is reported when
/// nothing else is left.
#[tokio::test]
async fn an_unreadable_row_is_passed_and_then_reported() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("bad", "a", 1)).await;
    append(&h.store, &event("good", "b", 1)).await;
    let mut tx = h.pool.begin().await.expect("begin");
    // Past the guards: an aggregate id that renders as nothing, which the CHECKs let through.
    tx.execute(
        "SET LOCAL session_replication_role = replica; \
         UPDATE outbox_event SET aggregate_id = U&'\\200B' WHERE event_id = 'bad'",
    )
    .await
    .expect("changed");
    tx.commit().await.expect("committed");
    let claim = claimed(&h.store, &request(1)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "good");
    let error = h.store.deliveries().claim_next(&request(2)).await;
    match error {
        Err(ClaimError::Corrupt { what }) => {
            assert_eq!(what, "column aggregate_id of event bad");
        }
        other => panic!("not reported: {other:?}"),
    }
    let row = h.delivery(&event_id("bad")).await.expect("delivery");
    assert_eq!((row.state, row.claim_count), (DeliveryStateName::Ready, 0));
}
