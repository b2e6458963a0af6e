//! The statements' plans: what runs at every turn never walks a whole table.

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::OutboxHarness as _;
use sqlx::{Row as _, SqliteConnection};

/// The steps of a plan that scan a table or an index of the outbox from its start.
async fn scans(connection: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let explained: &'static str =
        Box::leak(format!("EXPLAIN QUERY PLAN {statement}").into_boxed_str());
    sqlx::query(explained)
        .fetch_all(connection)
        .await
        .expect("plan")
        .iter()
        .map(|row| row.get::<String, _>("detail"))
        .filter(|step| {
            step.starts_with("SCAN")
                && [
                    "delivery", "event", "admitted", "outcome", "earlier", "observed", "outbox",
                ]
                .iter()
                .any(|table| step.contains(table))
        })
        .collect()
}

#[tokio::test]
async fn no_statement_of_the_relay_walks_a_table() {
    let harness = SqliteHarness::fresh().await;
    let mut connection = harness.connect().await;
    for statement in [
        include_str!("../../src/sql/insert_first_delivery.sql"),
        include_str!("../../src/sql/select_taken_identity.sql"),
        include_str!("../../src/sql/scan_heads.sql"),
        include_str!("../../src/sql/scan_tolerant.sql"),
        include_str!("../../src/sql/judge_head.sql"),
        include_str!("../../src/sql/select_open_attempts.sql"),
        include_str!("../../src/sql/renew_claim.sql"),
        include_str!("../../src/sql/select_removable.sql"),
        include_str!("../../src/sql/select_current.sql"),
        include_str!("../../src/sql/claim_delivery.sql"),
        include_str!("../../src/sql/exhaust_delivery.sql"),
        include_str!("../../src/sql/close_abandoned_attempt.sql"),
        include_str!("../../src/sql/admit_attempt.sql"),
        include_str!("../../src/sql/record_outcome.sql"),
        include_str!("../../src/sql/observe_outcome.sql"),
        include_str!("../../src/sql/select_attempt.sql"),
        include_str!("../../src/sql/select_event.sql"),
        include_str!("../../src/sql/append_late_observation.sql"),
        include_str!("../../src/sql/select_admission_exists.sql"),
        include_str!("../../src/sql/select_deliveries_after.sql"),
        include_str!("../../src/sql/select_delivery.sql"),
        include_str!("../../src/sql/select_inbox.sql"),
    ] {
        let scans = scans(&mut connection, statement).await;
        assert_eq!(scans, Vec::<String>::new(), "{statement}");
    }
}

/// The watch would be worth nothing if it did not see a scan.
#[tokio::test]
async fn a_walk_is_seen() {
    let harness = SqliteHarness::fresh().await;
    let mut connection = harness.connect().await;
    let seen = scans(
        &mut connection,
        "SELECT * FROM outbox_delivery WHERE state = 'READY'",
    )
    .await;
    assert_eq!(seen.len(), 1, "{seen:?}");
}

async fn steps(connection: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let explained: &'static str =
        Box::leak(format!("EXPLAIN QUERY PLAN {statement}").into_boxed_str());
    sqlx::query(explained)
        .fetch_all(connection)
        .await
        .expect("plan")
        .iter()
        .map(|row| row.get("detail"))
        .collect()
}

/// Each statement walks the index that is made for it, in its order.
#[tokio::test]
async fn scans_walk_their_own_indexes() {
    let harness = SqliteHarness::fresh().await;
    let mut connection = harness.connect().await;
    for (statement, index) in [
        (
            include_str!("../../src/sql/scan_heads.sql"),
            "outbox_delivery_open_head",
        ),
        (
            include_str!("../../src/sql/judge_head.sql"),
            "outbox_delivery_open_head",
        ),
        (
            include_str!("../../src/sql/scan_tolerant.sql"),
            "outbox_delivery_open_tolerant",
        ),
        (
            include_str!("../../src/sql/sample_backlog.sql"),
            "outbox_delivery_open_age",
        ),
        (
            include_str!("../../src/sql/select_removable.sql"),
            "outbox_delivery_resolved",
        ),
    ] {
        let steps = steps(&mut connection, statement).await;
        assert!(
            steps.iter().any(|step| step.contains(index)),
            "{index}: {steps:#?}"
        );
        assert!(
            !steps.iter().any(|step| step.contains("TEMP B-TREE")),
            "{steps:#?}"
        );
    }
}
