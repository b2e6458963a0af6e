//! Retention against everybody else who may hold the same rows.
//!
//! Invariant: each race is made real by a lock that the test holds; an event goes whole or stays
//! whole, and nobody who comes at the same time fails for it in another way than finding it gone.

use crate::claims::waits_for_a_lock;
use crate::harness::PostgresHarness;
use crate::operator::{
    act, applied, apply, command, compensate, conflict, hold_up_removals, lapsed, late,
    let_removals_go_on, requeue, rows, skip,
};
use crate::retention::{AT_ONCE, reap, record_next, recorded};
use crate::sample::{acknowledged, append, event, event_id, request};
use crate::wait::Wait;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    ClaimOutcome, Disposition, DispositionConflict, DispositionOutcome, LateWriteReport,
    OutboxAttemptObservationPort as _, OutboxDeliveryPort as _, OutboxRetentionPort as _,
    ReapReport, ReapRequest, RecordOutcome, RetentionError,
};
use domain_core::delivery::DeliveryStateName;
use sqlx::{Connection as _, Executor as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A hold that is being placed is not waited for, and its event stays; a batch that is under way
/// makes the hold wait, and then there is nothing to keep.
#[tokio::test]
async fn a_legal_hold_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    recorded(&h, "first", 1).await;
    let mut session = h.place.session().await;
    let mut placing = session.begin().await.expect("begin");
    placing
        .execute(
            "INSERT INTO outbox_legal_hold (event_id, placed_by, reason_code, reason, reference) \
             VALUES ('first', 'ops', 'LAW', 'a case', 'CASE-1')",
        )
        .await
        .expect("placed");
    assert_eq!(reap(&h).await, 0);
    placing.commit().await.expect("committed");
    assert_eq!(reap(&h).await, 0);

    recorded(&h, "second", 2).await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let placing = tokio::spawn(async move {
        let retention = task.store.retention();
        retention
            .place_legal_hold(&event_id("second"), &act())
            .await
    });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    let placed = placing.await.expect("joined");
    assert!(matches!(placed, Err(RetentionError::NoEvent)), "{placed:?}");
    assert_eq!(rows(&h).await[0], 1);
}

/// A compensation that is about to name an event keeps it; one that comes while the event goes
/// finds none.
#[tokio::test]
async fn a_compensation_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("lost", "a", 1)).await;
    h.force_state(&event_id("lost"), DeliveryStateName::Exhausted)
        .await;
    recorded(&h, "instead", 1).await;
    let mut session = h.place.session().await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let seen = command(&h, "lost", compensate("instead")).await;
    let compensating = tokio::spawn(async move { apply(&task, &seen).await });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    let outcome = compensating.await.expect("joined").expect("answered");
    assert_eq!(
        outcome,
        DispositionOutcome::Conflict(DispositionConflict::NoCompensation)
    );
    assert_eq!(rows(&h).await, [1, 1, 0, 0]);
}

/// A requeue that waits for its row keeps the event; so does the one that came first. A
/// disposition that comes while the event goes finds no delivery.
#[tokio::test]
async fn a_requeue_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Exhausted)
        .await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("locked");
    let task = Arc::clone(&h);
    let requeuing = tokio::spawn(async move { apply(&task, &seen).await });
    waits_for_a_lock(&h, 1).await;
    assert_eq!(reap(&h).await, 0);
    holder.rollback().await.expect("released");
    let outcome = requeuing.await.expect("joined").expect("answered");
    assert!(matches!(outcome, DispositionOutcome::Applied(_)));
    assert_eq!(reap(&h).await, 0);
    assert_eq!(rows(&h).await, [1, 2, 0, 1]);

    applied(&h, "e1", Disposition::Hold).await;
    applied(&h, "e1", skip()).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let late = tokio::spawn(async move { conflict(&task, &seen).await });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    assert_eq!(late.await.expect("joined"), DispositionConflict::NoDelivery);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// Two batches never wait for each other, and none removes what the other one holds.
#[tokio::test]
async fn a_second_batch_takes_what_the_first_does_not_hold() {
    let h = Arc::new(PostgresHarness::fresh().await);
    for (number, id) in (1..).zip(["e1", "e2", "e3", "e4"]) {
        recorded(&h, id, number).await;
    }
    let mut session = h.place.session().await;
    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let two = ReapRequest {
        limit: 2,
        ..AT_ONCE
    };
    let first = tokio::spawn(async move { task.store.retention().reap(&two).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let second = tokio::spawn(async move { task.store.retention().reap(&AT_ONCE).await });
    // It too comes as far as the removal of its events.
    waits_for_a_lock(&h, 2).await;
    let third = h.store.retention().reap(&AT_ONCE).await.expect("reaped");
    assert_eq!(
        third,
        ReapReport {
            removed: 0,
            finished: true
        }
    );
    let_removals_go_on(&mut session).await;
    let first = first.await.expect("joined").expect("reaped");
    let second = second.await.expect("joined").expect("reaped");
    assert_eq!((first.removed, second.removed), (2, 2));
    assert!(!first.finished && second.finished);
    assert_eq!(rows(&h).await, [0, 0, 0, 0]);
}

/// A late acknowledgement that is being written keeps its event for now; one that comes while the
/// event goes, or after, is counted and dropped, and spoils no other.
#[tokio::test]
async fn a_late_acknowledgement_and_a_batch_at_the_same_time() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("gone", "a", 1)).await;
    let gone = lapsed(&h, 1).await;
    applied(&h, "gone", Disposition::Hold).await;
    applied(&h, "gone", requeue(600, 3600)).await;
    record_next(&h, 2).await;
    append(&h.store, &event("there", "b", 1)).await;
    let there = lapsed(&h, 3).await;

    // The old generation's row is what a late writer holds.
    let mut session = h.place.session().await;
    let mut writing = session.begin().await.expect("begin");
    writing
        .execute(
            "SELECT 1 FROM outbox_delivery WHERE event_id = 'gone' AND delivery_generation = 1 \
             FOR NO KEY UPDATE",
        )
        .await
        .expect("locked");
    assert_eq!(reap(&h).await, 0);
    writing.rollback().await.expect("released");

    hold_up_removals(&mut session).await;
    let task = Arc::clone(&h);
    let reaping = tokio::spawn(async move { reap(&task).await });
    waits_for_a_lock(&h, 1).await;
    let task = Arc::clone(&h);
    let both = [late(&gone), late(&there)];
    let writing = tokio::spawn(async move {
        let deliveries = task.store.deliveries();
        deliveries.append_late_observations(&both).await
    });
    waits_for_a_lock(&h, 2).await;
    let_removals_go_on(&mut session).await;
    assert_eq!(reaping.await.expect("joined"), 1);
    assert_eq!(
        writing.await.expect("joined").expect("written"),
        LateWriteReport {
            appended: 1,
            duplicates: 0,
            orphaned: 1
        }
    );
    let deliveries = h.store.deliveries();
    let after = deliveries
        .append_late_observations(&[late(&there), late(&gone)])
        .await;
    assert_eq!(
        after.expect("written"),
        LateWriteReport {
            appended: 0,
            duplicates: 1,
            orphaned: 1
        }
    );
}

/// Workers claim and record, an operator requeues, and two reapers remove all the time: every event
/// is recorded by one claim, none is lost on the way, and then all is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removals_under_claims_and_requeues() {
    const EVENTS: u64 = 60;
    const STUCK: u64 = 20;
    let h = Arc::new(PostgresHarness::fresh().await);
    let mut stuck = Vec::new();
    for number in 0..STUCK {
        let id = format!("stuck-{number}");
        append(&h.store, &event(&id, &id, 1)).await;
        h.force_state(&event_id(&id), DeliveryStateName::Exhausted)
            .await;
        stuck.push(id);
    }
    let done = Arc::new(AtomicBool::new(false));
    let (recorded, removed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let attempts = Arc::new(AtomicU64::new(1));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (h, done) = (Arc::clone(&h), Arc::clone(&done));
        let (recorded, attempts) = (Arc::clone(&recorded), Arc::clone(&attempts));
        tasks.push(tokio::spawn(async move {
            let deliveries = h.store.deliveries();
            let wait = Wait::new("all events");
            while !done.load(Ordering::Relaxed) {
                let number = attempts.fetch_add(1, Ordering::Relaxed);
                let request = request(u32::try_from(number).expect("small"));
                match deliveries.claim_next(&request).await.expect("claim") {
                    ClaimOutcome::Claimed(claim) => {
                        let outcome = deliveries.record_outcome(&acknowledged(&claim)).await;
                        assert!(
                            matches!(outcome, Ok(RecordOutcome::Recorded(_))),
                            "{outcome:?}"
                        );
                        recorded.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => wait.again().await,
                }
            }
        }));
    }
    for _ in 0..2 {
        let (h, done, removed) = (Arc::clone(&h), Arc::clone(&done), Arc::clone(&removed));
        tasks.push(tokio::spawn(async move {
            let retention = h.store.retention();
            while !done.load(Ordering::Relaxed) {
                let report = retention.reap(&AT_ONCE).await.expect("reaped");
                removed.fetch_add(report.removed, Ordering::Relaxed);
            }
        }));
    }
    for number in 0..EVENTS {
        let id = format!("e{number}");
        let sequence = i64::try_from(number).expect("small");
        append(&h.store, &event(&id, &format!("a{}", number % 7), sequence)).await;
        if let Some(stuck) = stuck.pop() {
            applied(&h, &stuck, requeue(600, 3600)).await;
        }
    }
    assert!(stuck.is_empty());
    let wait = Wait::new("every event to be removed");
    while rows(&h).await != [0, 0, 0, 0] {
        wait.again().await;
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no task failed");
    }
    assert_eq!(recorded.load(Ordering::Relaxed), EVENTS + STUCK);
    assert_eq!(removed.load(Ordering::Relaxed), EVENTS + STUCK);
}
