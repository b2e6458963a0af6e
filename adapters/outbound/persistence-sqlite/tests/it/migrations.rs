//! The schema moves forward only, and only along the embedded texts.

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::OutboxHarness as _;
use outbound_persistence_sqlite::{OpenError, SqliteStore, SqliteStoreOptions};
use sqlx::migrate::MigrateError;

/// Changes the record of what was applied, and opens the store again.
async fn reopened_after(sql: &'static str) -> MigrateError {
    let harness = SqliteHarness::fresh().await;
    harness.store.close().await;
    let mut connection = harness.connect().await;
    let done = sqlx::query(sql).execute(&mut connection).await;
    assert_eq!(done.expect("changed").rows_affected(), 1);
    let options = SqliteStoreOptions::default();
    match SqliteStore::open(harness.path(), options).await {
        Err(OpenError::Schema { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let error = reopened_after(
        "UPDATE countersign_migrations SET checksum = zeroblob(48) WHERE version = 2",
    )
    .await;
    assert!(
        matches!(error, MigrateError::VersionMismatch(2)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_schema_from_the_future_is_refused() {
    let error = reopened_after(
        "INSERT INTO countersign_migrations (version, description, success, checksum, execution_time)
         VALUES (9000, 'later', TRUE, zeroblob(48), 0)",
    )
    .await;
    assert!(
        matches!(error, MigrateError::VersionMissing(9000)),
        "{error:?}"
    );
}

#[tokio::test]
async fn opening_again_applies_nothing() {
    let harness = SqliteHarness::fresh().await;
    let before = schema(&harness).await;
    harness.store.close().await;
    let options = SqliteStoreOptions::default();
    let store = SqliteStore::open(harness.path(), options)
        .await
        .expect("open");
    store.close().await;
    assert_eq!(schema(&harness).await, before);
}

async fn schema(harness: &SqliteHarness) -> Vec<(String, Option<String>)> {
    let mut connection = harness.connect().await;
    sqlx::query_as("SELECT name, sql FROM sqlite_schema ORDER BY name")
        .fetch_all(&mut connection)
        .await
        .expect("schema")
}

/// STRICT refuses a value of another type even from SQL that goes past the ports.
#[tokio::test]
async fn every_table_is_strict() {
    let harness = SqliteHarness::fresh().await;
    let mut connection = harness.connect().await;
    let lax: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM pragma_table_list
         WHERE schema = 'main' AND type = 'table' AND strict = 0
             AND name NOT LIKE 'sqlite%' AND name <> 'countersign_migrations'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("tables");
    assert_eq!(lax, Vec::<String>::new());
}
