//! Appends and claims against a change of the publication epoch, and what the schema itself refuses.
//!
//! Invariant: an append commits under the epoch that is ACTIVE when it commits, or not at all.

use crate::claims::waits_for_a_lock;
use crate::harness::{PostgresHarness, policy};
use crate::sample::{append, claimed, event, event_id, nothing, parts, request, try_append};
use crate::wait::{pause, until};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    AppendError, BudgetSpentReason, ClaimOutcome, ClaimRequest, OperatorAct, OutboxAppendPort as _,
    OutboxDeliveryPort as _, OutboxQueryPort as _, PublicationAuthorityPort as _, TransactionError,
    TransactionPort as _,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::{ActReference, OperatorId, PublicationEpoch, ReasonCode, ReasonText};
use outbound_persistence_postgres::WriteIsolation;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// An operator and a reason.
pub(crate) fn act() -> OperatorAct {
    OperatorAct {
        operator: OperatorId::parse("operator-1").expect("operator"),
        reason_code: ReasonCode::parse("MAINTENANCE").expect("code"),
        reason: ReasonText::parse("a planned change").expect("reason"),
        reference: ActReference::parse("INC-1").expect("reference"),
    }
}

/// What was audited, in order.
pub(crate) async fn audited(h: &PostgresHarness) -> Vec<String> {
    sqlx::query_scalar("SELECT action FROM outbox_authority_audit ORDER BY audit_id")
        .fetch_all(&h.pool)
        .await
        .expect("audit")
}

/// Another writer's insert under the first epoch, with everything else as it should be.
pub(crate) fn stale_insert(id: &str, sequence: u32) -> String {
    format!(
        "WITH event AS ( \
             INSERT INTO outbox_event SELECT (jsonb_populate_record(e, jsonb_build_object( \
             'event_id', '{id}', 'aggregate_sequence', {sequence}, 'publication_epoch', 1))).* \
             FROM outbox_event AS e ORDER BY event_id LIMIT 1 RETURNING event_id) \
         INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
         dispatch_profile_id, state, automatic_attempt_deadline) \
         SELECT event_id, 1, 'CURRENT', 'p', 'READY', clock_timestamp() FROM event"
    )
}

/// Retires the ACTIVE epoch and activates the next, without committing.
pub(crate) async fn change_epoch(session: &mut PgConnection) {
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
    soon.requeue_horizon = Duration::from_secs(2);
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

/// The admission, the epochs, the gate and their audit move only as the protocol says, whoever
/// writes to them.
#[tokio::test]
async fn authority_moves_only_as_the_protocol_says() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    h.store
        .authority()
        .prepare_epoch(DispatchAuthority::Cdc, None)
        .await
        .expect("prepared");
    h.pool
        .execute(
            "INSERT INTO outbox_authority_audit \
             (action, subject, operator, reason_code, reason, reference) \
             VALUES ('THAWED', 's', 'o', 'C', 'r', 'x')",
        )
        .await
        .expect("audited");
    let admission = |change: &str| {
        format!("UPDATE write_admission SET row_version = row_version + 1, {change}")
    };
    let epoch = |change: &str| format!("UPDATE outbox_publication_epoch SET {change}");
    for (statement, rule) in [
        (
            admission("state = 'FROZEN', generation = generation + 1"),
            "write_admission_transition",
        ),
        (
            admission("state = 'FREEZING', generation = generation + 1"),
            "write_admission_transition",
        ),
        (
            admission("changed_at = clock_timestamp()"),
            "write_admission_transition",
        ),
        (
            "UPDATE write_admission SET state = 'FREEZING'".to_owned(),
            "write_admission_transition",
        ),
        (
            "DELETE FROM write_admission".to_owned(),
            "write_admission_kept",
        ),
        (
            "TRUNCATE write_admission".to_owned(),
            "write_admission_kept",
        ),
        (
            epoch("state = 'PREPARED' WHERE epoch_id = 1"),
            "outbox_publication_epoch_life",
        ),
        (
            format!(
                "{}; {}",
                epoch("state = 'RETIRED' WHERE epoch_id = 1"),
                epoch("state = 'ACTIVE' WHERE epoch_id = 1")
            ),
            "outbox_publication_epoch_life",
        ),
        (
            epoch("state = 'ACTIVE', activated_at = now(), activated_by = 'x' WHERE epoch_id = 2"),
            "outbox_publication_epoch_one_active",
        ),
        (
            "DELETE FROM outbox_claim_gate".to_owned(),
            "outbox_claim_gate_kept",
        ),
        (
            "UPDATE outbox_claim_gate SET events = array_fill('e'::text, ARRAY[257])".to_owned(),
            "outbox_claim_gate_bound",
        ),
        (
            "UPDATE outbox_authority_audit SET operator = 'other'".to_owned(),
            "outbox_authority_audit_insert_only",
        ),
        (
            "DELETE FROM outbox_authority_audit".to_owned(),
            "outbox_authority_audit_insert_only",
        ),
        (
            "TRUNCATE outbox_authority_audit".to_owned(),
            "outbox_authority_audit_insert_only",
        ),
        // An event that nobody would publish, at its commit.
        (
            "INSERT INTO outbox_event SELECT (jsonb_populate_record(e, jsonb_build_object( \
             'event_id', 'e2', 'aggregate_sequence', 2))).* FROM outbox_event AS e"
                .to_owned(),
            "outbox_event_has_delivery",
        ),
    ] {
        assert_eq!(refused_at_commit(&h, &statement).await, rule, "{statement}");
    }
    let mut tx = h.pool.begin().await.expect("begin");
    tx.execute(AssertSqlSafe(admission("state = 'FREEZING'")))
        .await
        .expect("announced");
    let refused = tx.execute("SELECT countersign_admit_write()").await;
    let error = refused
        .expect_err("frozen")
        .into_database_error()
        .expect("database");
    assert_eq!(error.code().as_deref(), Some("CS001"));
    assert_eq!(error.constraint(), Some("FREEZING"));
}

/// Runs a statement in a transaction that must be refused, by its commit at the latest, and says
/// which rule refused it.
async fn refused_at_commit(h: &PostgresHarness, statement: &str) -> String {
    let mut tx = h.pool.begin().await.expect("begin");
    let error = match tx.execute(AssertSqlSafe(statement)).await {
        Ok(_) => tx.commit().await.expect_err(statement),
        Err(error) => error,
    };
    let error = error.into_database_error().expect("the server's answer");
    let sqlstate = error.code().expect("SQLSTATE");
    assert!(sqlstate.starts_with("23"), "{sqlstate} for {statement}");
    error.constraint().unwrap_or_default().to_owned()
}
