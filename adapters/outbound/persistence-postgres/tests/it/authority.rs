//! Appends and claims against a change of the publication epoch.
//!
//! Invariant: an append commits under the epoch that is ACTIVE when it commits, or not at all.

use crate::claims::waits_for_a_lock;
use crate::harness::{PostgresHarness, policy};
use crate::sample::{append, claimed, event, event_id, nothing, parts, request, try_append};
use crate::wait::{pause, until};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    AppendError, BudgetSpentReason, ClaimOutcome, ClaimRequest, OutboxAppendPort as _,
    OutboxDeliveryPort as _, OutboxQueryPort as _, TransactionError, TransactionPort as _,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::PublicationEpoch;
use outbound_persistence_postgres::WriteIsolation;
use sqlx::{Connection as _, Executor as _, PgConnection};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Retires the ACTIVE epoch and activates the next, without committing.
async fn change_epoch(session: &mut PgConnection) {
    session
        .execute(
            "UPDATE outbox_publication_epoch SET state = 'RETIRED', \
                 row_version = row_version + 1 WHERE state = 'ACTIVE'; \
             INSERT INTO outbox_publication_epoch \
                 (epoch_id, authority, state, activated_at, activated_by) \
             VALUES (2, 'POLLING_V2', 'ACTIVE', clock_timestamp(), 'test')",
        )
        .await
        .expect("epoch changed");
}

/// An append came first: the change waits for its commit, and the event keeps the old epoch.
#[tokio::test]
async fn a_change_of_epoch_waits_for_an_append() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let outbox = h.store.outbox(policy());
    let sealed = event("e1", "a", 1);
    let (appended, seen) = oneshot::channel();
    let (go_on, gate) = oneshot::channel::<()>();
    let transactions = h.store.transactions();
    let appending = tokio::spawn(async move {
        transactions
            .in_write(move |tx| {
                Box::pin(async move {
                    let receipt = outbox.append(tx, &sealed).await?;
                    appended.send(()).expect("the test listens");
                    gate.await.expect("the test goes on");
                    Ok::<_, AppendError>(receipt)
                })
            })
            .await
    });
    seen.await.expect("appended");
    let mut session = h.place.session().await;
    let changing = tokio::spawn(async move {
        let mut tx = session.begin().await.expect("begin");
        change_epoch(&mut tx).await;
        tx.commit().await.expect("committed");
    });
    waits_for_a_lock(&h, 1).await;
    assert!(!changing.is_finished());
    go_on.send(()).expect("the append listens");
    let receipt = appending.await.expect("joined").expect("committed");
    assert_eq!(receipt.epoch, PublicationEpoch::FIRST);
    changing.await.expect("changed");
    let next = try_append(&h.store, &h.store.transactions(), &event("e2", "a", 2)).await;
    assert_eq!(next.expect("appended").epoch.value(), 2);
}

/// A change came first: the append waits, finds no ACTIVE epoch in its own view, and takes its
/// business row back; tried again, it is appended under the new epoch.
#[tokio::test]
async fn an_append_that_waited_for_a_change_is_tried_again() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let mut session = h.place.session().await;
    let mut changing = session.begin().await.expect("begin");
    change_epoch(&mut changing).await;
    let task = Arc::clone(&h);
    let appending = tokio::spawn(async move {
        let outbox = task.store.outbox(policy());
        let sealed = event("e1", "a", 1);
        task.store
            .transactions()
            .in_write(move |tx| {
                Box::pin(async move {
                    PostgresHarness::insert_business_row(tx, "lost")
                        .await
                        .expect("a business row");
                    outbox.append(tx, &sealed).await
                })
            })
            .await
    });
    waits_for_a_lock(&h, 1).await;
    changing.commit().await.expect("committed");
    let waited = appending.await.expect("joined");
    assert!(
        matches!(
            waited,
            Err(TransactionError::Work(AppendError::NoActiveEpoch))
        ),
        "{waited:?}"
    );
    assert_eq!(h.business_rows().await, Vec::<String>::new());
    assert_eq!(h.store.query().counts().await.expect("counts").events, 0);
    let again = try_append(&h.store, &h.store.transactions(), &event("e1", "a", 1)).await;
    assert_eq!(again.expect("appended").epoch.value(), 2);
}

/// A change that is rolled back leaves the waiting append as if it had never been.
#[tokio::test]
async fn an_append_that_waited_for_an_abandoned_change_goes_on() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let mut session = h.place.session().await;
    let mut changing = session.begin().await.expect("begin");
    change_epoch(&mut changing).await;
    let task = Arc::clone(&h);
    let appending = tokio::spawn(async move {
        try_append(
            &task.store,
            &task.store.transactions(),
            &event("e1", "a", 1),
        )
        .await
    });
    waits_for_a_lock(&h, 1).await;
    changing.rollback().await.expect("rolled back");
    let receipt = appending.await.expect("joined").expect("appended");
    assert_eq!(receipt.epoch, PublicationEpoch::FIRST);
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Ready);
}

/// At the higher levels the database says that the transaction must be tried again.
#[tokio::test]
async fn a_snapshot_older_than_the_change_is_tried_again() {
    let h = PostgresHarness::fresh().await;
    for (number, isolation) in [WriteIsolation::RepeatableRead, WriteIsolation::Serializable]
        .into_iter()
        .enumerate()
    {
        let outbox = h.store.outbox(policy());
        let sealed = event(&format!("e{number}"), "a", 1);
        let pool = h.pool.clone();
        let result = h
            .store
            .transactions_at(isolation)
            .in_write(move |tx| {
                Box::pin(async move {
                    tx.as_mut()
                        .execute("SELECT count(*) FROM business")
                        .await
                        .expect("the snapshot is taken");
                    pool.execute(
                        "UPDATE outbox_publication_epoch SET row_version = row_version + 1 \
                         WHERE state = 'ACTIVE'",
                    )
                    .await
                    .expect("the epoch row changes");
                    outbox.append(tx, &sealed).await
                })
            })
            .await;
        assert!(
            matches!(
                result,
                Err(TransactionError::Work(AppendError::TryAgain(_)))
            ),
            "{isolation:?}: {result:?}"
        );
    }
    let serializable = h.store.transactions_at(WriteIsolation::Serializable);
    try_append(&h.store, &serializable, &event("kept", "a", 1))
        .await
        .expect("nothing is in the way");
}

/// A claim waits for a change under way, and takes nothing once another authority is ACTIVE.
#[tokio::test]
async fn a_claim_takes_nothing_after_a_change_to_another_authority() {
    let h = Arc::new(PostgresHarness::fresh().await);
    append(&h.store, &event("e1", "a", 1)).await;
    let mut session = h.place.session().await;
    let mut changing = session.begin().await.expect("begin");
    change_epoch(&mut changing).await;
    changing
        .execute(
            "UPDATE outbox_publication_epoch SET state = 'RETIRED' WHERE epoch_id = 2; \
             INSERT INTO outbox_publication_epoch \
                 (epoch_id, authority, state, activated_at, activated_by) \
             VALUES (3, 'CDC', 'ACTIVE', clock_timestamp(), 'test')",
        )
        .await
        .expect("change data capture");
    let task = Arc::clone(&h);
    let claiming =
        tokio::spawn(async move { task.store.deliveries().claim_next(&request(1)).await });
    waits_for_a_lock(&h, 1).await;
    pause().await;
    assert!(!claiming.is_finished());
    changing.commit().await.expect("committed");
    let outcome = claiming.await.expect("joined").expect("claim");
    assert!(matches!(outcome, ClaimOutcome::Nothing), "{outcome:?}");
    nothing(&h.store, &request(2)).await;
    h.activate_epoch(Some(DispatchAuthority::PollingV2)).await;
    claimed(&h.store, &request(3)).await;
}

/// A claim that waited is judged by the clock after the wait: a deadline that passed meanwhile ends
/// the row, although it had time left when the transaction began.
#[tokio::test]
async fn a_claim_that_waited_is_judged_after_the_wait() {
    let h = Arc::new(PostgresHarness::fresh().await);
    let mut soon = parts("e1", "a", 1);
    soon.requeue_horizon = Duration::from_millis(400);
    append(&h.store, &ValidatedIntegrationEvent::seal(soon)).await;
    let deadline = h.delivery(&event_id("e1")).await.expect("delivery");
    let deadline = deadline.automatic_attempt_deadline;
    let mut session = h.place.session().await;
    let mut changing = session.begin().await.expect("begin");
    change_epoch(&mut changing).await;
    let task = Arc::clone(&h);
    let claiming = tokio::spawn(async move {
        let hasty = ClaimRequest {
            attempt_budget: Duration::from_millis(1),
            ..request(1)
        };
        task.store.deliveries().claim_next(&hasty).await
    });
    waits_for_a_lock(&h, 1).await;
    assert!(
        h.database_now().await < deadline,
        "the claim began too late"
    );
    until("the deadline to pass", async || {
        (h.database_now().await > deadline).then_some(())
    })
    .await;
    changing.rollback().await.expect("rolled back");
    let outcome = claiming.await.expect("joined").expect("claim");
    assert!(
        matches!(
            outcome,
            ClaimOutcome::BudgetSpent {
                reason: BudgetSpentReason::Deadline,
                ..
            }
        ),
        "{outcome:?}"
    );
}
