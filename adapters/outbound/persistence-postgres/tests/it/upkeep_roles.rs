//! The example roles of operators and of retention: enough for the work, and no more.
//!
//! Invariant: a refusal here is one of privilege (42501), before any trigger is asked.

use crate::harness::PostgresHarness;
use crate::operator::{act, command, requeue, rows, skip};
use crate::sample::{append, event, event_id};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    Disposition, DispositionOutcome, OutboxDispositionPort as _, OutboxRetentionPort as _,
    ReapRequest, RetentionError,
};
use domain_core::delivery::DeliveryStateName;
use outbound_persistence_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Executor as _};
use std::time::Duration;

const ROLES: [&str; 6] = [
    "append",
    "relay",
    "read",
    "authority",
    "operator",
    "maintenance",
];

const AT_ONCE: ReapRequest = ReapRequest {
    audit_retention: Duration::ZERO,
    replay_horizon: Duration::ZERO,
    limit: 10,
};

async fn denied(h: &PostgresHarness, role: &str, statements: &[&str]) {
    for statement in statements {
        let mut tx = h.pool.begin().await.expect("begin");
        tx.execute(AssertSqlSafe(format!("SET LOCAL ROLE {role}")))
            .await
            .expect("role");
        let error = tx
            .execute(AssertSqlSafe(*statement))
            .await
            .expect_err(statement)
            .into_database_error()
            .expect("the server's answer");
        assert_eq!(
            error.code().as_deref(),
            Some("42501"),
            "{role}: {statement}"
        );
        tx.rollback().await.expect("rolled back");
    }
}

/// Every disposition of a lapsed claim up to its skip, and a hold by law.
async fn operate(h: &PostgresHarness, store: &PostgresStore) {
    for disposition in [
        Disposition::Hold,
        requeue(600, 3600),
        Disposition::Hold,
        skip(),
    ] {
        let command = command(h, "e1", disposition).await;
        let outcome = store.dispositions().apply(&command).await.expect("applied");
        assert!(
            matches!(outcome, DispositionOutcome::Applied(_)),
            "{outcome:?}"
        );
    }
    let retention = store.retention();
    let held = event_id("e1");
    assert!(
        retention
            .place_legal_hold(&held, &act())
            .await
            .expect("placed")
    );
    assert!(
        retention
            .lift_legal_hold(&held, &act())
            .await
            .expect("lifted")
    );
}

#[tokio::test]
async fn operators_dispose_and_the_maintenance_role_removes() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    crate::operator::lapsed(&h, 1).await;
    append(&h.store, &event("e2", "b", 1)).await;
    h.force_state(&event_id("e2"), DeliveryStateName::Exhausted)
        .await;
    let prefix = h.place.name();
    let role = |name: &str| format!("{prefix}_{name}");
    let grants = include_str!("../../sql/roles.sql").replace("countersign_", &format!("{prefix}_"));
    h.pool
        .execute(AssertSqlSafe(grants))
        .await
        .expect("granted");
    for name in ROLES {
        let usage = format!("GRANT USAGE ON SCHEMA {prefix} TO {}", role(name));
        h.pool.execute(AssertSqlSafe(usage)).await.expect("usage");
    }
    let under = async |name: &str| h.place.bare_store(&[&format!("role={}", role(name))]).await;
    let (operator, maintenance) = (under("operator").await, under("maintenance").await);

    operate(&h, &operator).await;
    let refused = operator.retention().reap(&AT_ONCE).await;
    assert!(
        matches!(refused, Err(RetentionError::Unavailable(_))),
        "{refused:?}"
    );
    let seen = command(&h, "e2", Disposition::Hold).await;
    maintenance
        .dispositions()
        .apply(&seen)
        .await
        .expect_err("refused");
    let report = maintenance.retention().reap(&AT_ONCE).await;
    assert_eq!(report.expect("reaped").removed, 1);
    assert_eq!(rows(&h).await, [1, 1, 0, 0]);

    for name in ROLES.into_iter().filter(|name| *name != "maintenance") {
        denied(
            &h,
            &role(name),
            &[
                "DELETE FROM outbox_event",
                "DELETE FROM outbox_delivery",
                "DELETE FROM outbox_delivery_attempt_observation",
                "DELETE FROM outbox_disposition_audit",
                "UPDATE outbox_disposition_audit SET operator = 'x'",
            ],
        )
        .await;
    }
    denied(
        &h,
        &role("operator"),
        &["SELECT envelope_bytes FROM outbox_event"],
    )
    .await;
    denied(
        &h,
        &role("maintenance"),
        &[
            "SELECT envelope_bytes FROM outbox_event",
            "SELECT claim_token FROM outbox_delivery",
            "UPDATE outbox_delivery SET state = 'SKIPPED'",
            "TRUNCATE outbox_event CASCADE",
            "DELETE FROM outbox_legal_hold",
            "INSERT INTO outbox_disposition_audit DEFAULT VALUES",
        ],
    )
    .await;

    for store in [operator, maintenance] {
        store.close().await;
    }
    for name in ROLES {
        let gone = format!("DROP OWNED BY {0}; DROP ROLE {0}", role(name));
        h.pool.execute(AssertSqlSafe(gone)).await.expect("dropped");
    }
}
