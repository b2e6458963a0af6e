//! Requeues on real rows: one generation takes over from another.
//!
//! Invariant: the hand-over is whole or not at all, and an event has one CURRENT generation.

use crate::claims::waits_for_a_lock;
use crate::disposition::{generation, in_state};
use crate::harness::PostgresHarness;
use crate::operator::{applied, apply, command, conflict, number, refused_by, requeue, rows};
use crate::sample::{acknowledged, claimed, event_id, nothing, request};
use crate::wait::until;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    DispositionConflict, DispositionError, DispositionOutcome, OutboxDeliveryPort as _,
    RecordOutcome,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::RowVersion;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::sync::Arc;
use std::time::Duration;

/// The new generation's deadline is min(its creation + maximum age, event creation + horizon).
#[tokio::test]
async fn a_requeue_deadline_is_the_earlier_of_age_and_horizon() {
    let h = PostgresHarness::fresh().await;
    for (id, aggregate, horizon) in [("age", "a", 3600), ("horizon", "b", 300)] {
        in_state(&h, id, aggregate, DeliveryStateName::Exhausted).await;
        let old = h.delivery(&event_id(id)).await.expect("delivery");
        let disposed = applied(&h, id, requeue(600, horizon)).await;
        assert_eq!(
            (disposed.generation, disposed.state, disposed.row_version),
            (generation(2), DeliveryStateName::Ready, RowVersion::FIRST)
        );
        let new = h.delivery(&event_id(id)).await.expect("delivery");
        assert!(new.created_at > old.created_at);
        assert_eq!((new.claim_count, new.attempt_count), (0, 0));
        if id == "horizon" {
            let last = old.created_at.plus(Duration::from_secs(300));
            assert_eq!(new.automatic_attempt_deadline, last);
        } else {
            // The clock goes on between the deadline and the row's own creation.
            let last = new.created_at.plus(Duration::from_secs(600)).epoch_micros();
            let deadline = new.automatic_attempt_deadline.epoch_micros();
            assert!((last - 1_000_000..=last).contains(&deadline), "{deadline}");
        }
    }
    let handed_over = number(
        &h.pool,
        "SELECT count(*) FROM outbox_delivery AS old JOIN outbox_delivery AS new \
         ON new.event_id = old.event_id \
            AND new.delivery_generation = old.superseded_by_generation \
            AND new.dispatch_profile_id = old.dispatch_profile_id \
         JOIN outbox_disposition_audit AS audit \
         ON audit.event_id = old.event_id AND audit.delivery_generation = 1 \
            AND audit.next_generation = 2 AND audit.to_state = 'READY' \
         WHERE old.authority_status = 'SUPERSEDED' AND old.state = 'EXHAUSTED'",
    )
    .await;
    assert_eq!(handed_over, 2);
}

/// After the event's horizon the same event is never sent again, whatever the maximum age.
#[tokio::test]
async fn no_requeue_after_the_horizon() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Hold).await;
    let created = h.delivery(&event_id("e1")).await.expect("row").created_at;
    let last = created.plus(Duration::from_secs(1));
    until("the horizon", async || {
        (h.database_now().await > last).then_some(())
    })
    .await;
    let late = command(&h, "e1", requeue(3600, 1)).await;
    assert_eq!(
        conflict(&h, &late).await,
        DispositionConflict::HorizonPassed(last)
    );
    assert_eq!(rows(&h).await, [1, 1, 0, 0]);
}

/// Eight requeues that saw the same row, all waiting for it: one generation, one audit row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requeues_open_one_generation() {
    const OPERATORS: usize = 8;
    let h = Arc::new(PostgresHarness::fresh().await);
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    let mut session = h.place.session().await;
    let mut holder = session.begin().await.expect("begin");
    holder
        .execute("SELECT 1 FROM outbox_delivery WHERE event_id = 'e1' FOR UPDATE")
        .await
        .expect("locked");
    let tasks: Vec<_> = (0..OPERATORS)
        .map(|_| {
            let (h, seen) = (Arc::clone(&h), seen.clone());
            tokio::spawn(async move { apply(&h, &seen).await })
        })
        .collect();
    waits_for_a_lock(&h, i64::try_from(OPERATORS).expect("few")).await;
    holder.rollback().await.expect("released");
    let mut done = 0;
    for task in tasks {
        match task.await.expect("joined").expect("answered") {
            DispositionOutcome::Applied(disposed) => {
                assert_eq!(disposed.generation, generation(2));
                done += 1;
            }
            DispositionOutcome::Conflict(conflict) => {
                assert_eq!(conflict, DispositionConflict::Generation(generation(2)))
            }
        }
    }
    assert_eq!(done, 1);
    assert_eq!(rows(&h).await, [1, 2, 0, 1]);
}

/// A fault at the new row, or at the audit after it, takes the whole hand-over back.
#[tokio::test]
async fn a_hand_over_that_fails_midway_leaves_the_old_generation() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    for (table, planted) in [
        ("outbox_delivery", "delivery_generation = 1"),
        ("outbox_disposition_audit", "next_generation IS NULL"),
    ] {
        h.pool
            .execute(AssertSqlSafe(format!(
                "ALTER TABLE {table} ADD CONSTRAINT planted CHECK ({planted})"
            )))
            .await
            .expect("planted");
        let failed = apply(&h, &seen).await;
        assert!(
            matches!(failed, Err(DispositionError::Unavailable(_))),
            "{failed:?}"
        );
        assert_eq!(rows(&h).await, [1, 1, 0, 0]);
        let row = h.delivery(&event_id("e1")).await.expect("CURRENT");
        assert_eq!(
            (row.generation, row.state, row.row_version),
            (
                generation(1),
                DeliveryStateName::Exhausted,
                seen.row_version.value()
            )
        );
        h.pool
            .execute(AssertSqlSafe(format!(
                "ALTER TABLE {table} DROP CONSTRAINT planted"
            )))
            .await
            .expect("dropped");
    }
    applied(&h, "e1", requeue(600, 3600)).await;
}

/// Once superseded, a generation is nobody's again; the event keeps one CURRENT generation.
#[tokio::test]
async fn a_superseded_generation_is_never_claimed_again() {
    let h = PostgresHarness::fresh().await;
    in_state(&h, "exhausted", "a", DeliveryStateName::Exhausted).await;
    in_state(&h, "held", "b", DeliveryStateName::Hold).await;
    for id in ["exhausted", "held"] {
        applied(&h, id, requeue(600, 3600)).await;
        let second = format!(
            "INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, state, automatic_attempt_deadline) \
             VALUES ('{id}', 3, 'CURRENT', 'p', 'READY', clock_timestamp())"
        );
        assert_eq!(
            refused_by(&h.pool, &second).await,
            "outbox_delivery_one_current"
        );
    }
    for number in [1, 2] {
        let claim = claimed(&h.store, &request(number)).await;
        assert_eq!(claim.attempt.generation, generation(2));
        let recorded = h
            .store
            .deliveries()
            .record_outcome(&acknowledged(&claim))
            .await;
        assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
    }
    nothing(&h.store, &request(3)).await;
    let revived = "UPDATE outbox_delivery SET authority_status = 'CURRENT', \
                   superseded_by_generation = NULL, row_version = row_version + 1 \
                   WHERE delivery_generation = 1";
    assert_eq!(
        refused_by(&h.pool, revived).await,
        "outbox_delivery_transition"
    );
    let claimed = "UPDATE outbox_delivery SET state = 'CLAIMED', claim_count = 1, \
                   claim_token = '\\x00000000000000000000000000000000', claim_owner = 'w', \
                   claim_until = clock_timestamp(), terminal_at = NULL, \
                   row_version = row_version + 1 WHERE delivery_generation = 1";
    assert_eq!(
        refused_by(&h.pool, claimed).await,
        "outbox_delivery_transition"
    );
}

/// A requeue needs an ACTIVE polling epoch, and one that waited for an activation sees what was
/// activated.
#[tokio::test]
async fn a_requeue_waits_for_an_activation_and_sees_it() {
    let h = Arc::new(PostgresHarness::fresh().await);
    in_state(&h, "e1", "a", DeliveryStateName::Exhausted).await;
    let seen = command(&h, "e1", requeue(600, 3600)).await;
    for authority in [None, Some(DispatchAuthority::Cdc)] {
        h.activate_epoch(authority).await;
        assert_eq!(
            conflict(&h, &seen).await,
            DispositionConflict::NoPollingEpoch
        );
    }
    h.activate_epoch(Some(DispatchAuthority::PollingV2)).await;
    let mut session = h.place.session().await;
    let mut changing = session.begin().await.expect("begin");
    changing
        .execute(
            "UPDATE outbox_publication_epoch SET state = 'RETIRED', \
                 row_version = row_version + 1 WHERE state = 'ACTIVE'; \
             INSERT INTO outbox_publication_epoch \
                 (epoch_id, authority, state, activated_at, activated_by) \
             VALUES (1000, 'POLLING_V2', 'ACTIVE', clock_timestamp(), 'test')",
        )
        .await
        .expect("changed");
    let task = Arc::clone(&h);
    let requeuing = tokio::spawn(async move { apply(&task, &seen).await });
    waits_for_a_lock(&h, 1).await;
    changing.commit().await.expect("committed");
    let outcome = requeuing.await.expect("joined").expect("answered");
    assert!(
        matches!(outcome, DispositionOutcome::Applied(_)),
        "{outcome:?}"
    );
}
