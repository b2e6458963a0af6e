//! The schema's own life.
//!
//! Invariant: migrations run once, one process at a time, and never over something they do not
//! know.

use crate::place::Place;
use application_core::ports::{ResourceError, TransactionResourcePort as _};
use outbound_persistence_postgres::MigrationError;
use sqlx::Executor as _;
use std::collections::BTreeSet;

/// Several processes start at once; each finds the schema up to date afterwards, with one identity.
#[tokio::test]
async fn processes_that_start_together_migrate_once() {
    let place = Place::create().await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let store = place.bare_store(&[]).await;
        tasks.push(tokio::spawn(async move {
            store.migrate().await.expect("migrated");
            store.resource_id().await.expect("id")
        }));
    }
    let mut ids = BTreeSet::new();
    for task in tasks {
        ids.insert(task.await.expect("joined").as_str().to_owned());
    }
    assert_eq!(ids.len(), 1);
    let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM countersign_migration")
        .fetch_one(place.pool())
        .await
        .expect("applied");
    assert_eq!(applied, 9);
}

/// An applied migration with another content, and one from a later version.
#[tokio::test]
async fn a_schema_that_is_not_ours_is_refused() {
    let place = Place::create().await;
    let store = place.store().await;
    place
        .pool()
        .execute(r"UPDATE countersign_migration SET checksum = '\x00' WHERE version = 3")
        .await
        .expect("changed");
    let changed = store.migrate().await;
    assert!(
        matches!(changed, Err(MigrationError::Changed(3))),
        "{changed:?}"
    );
    place
        .pool()
        .execute("UPDATE countersign_migration SET version = 999 WHERE version = 3")
        .await
        .expect("changed");
    let unknown = store.migrate().await;
    assert!(
        matches!(unknown, Err(MigrationError::Unknown(999))),
        "{unknown:?}"
    );
}

/// A refused run gives the lock back: another process is not kept waiting by it.
#[tokio::test]
async fn a_refused_run_keeps_no_lock() {
    let place = Place::create().await;
    let store = place.store().await;
    place
        .pool()
        .execute(r"UPDATE countersign_migration SET checksum = '\x00' WHERE version = 1")
        .await
        .expect("changed");
    store.migrate().await.expect_err("refused");
    let held: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) \
         WHERE locktype = 'advisory' AND application_name = $1",
    )
    .bind(place.name())
    .fetch_one(place.pool())
    .await
    .expect("locks");
    assert_eq!(held, 0);
}

/// The session's defaults do not reach a migration.
#[tokio::test]
async fn contrary_defaults_do_not_stop_a_migration() {
    let place = Place::create().await;
    let store = place
        .bare_store(&[
            "default_transaction_isolation=serializable",
            "default_transaction_read_only=on",
        ])
        .await;
    store.migrate().await.expect("migrated");
    store.migrate().await.expect("nothing is missing");
}

/// A migration that fails leaves what was there, says which one it was, and can be run again.
#[tokio::test]
async fn a_failed_migration_is_rolled_back_and_named() {
    let place = Place::create().await;
    place
        .pool()
        .execute("CREATE TABLE outbox_delivery (in_the_way integer)")
        .await
        .expect("a table in the way");
    let store = place.bare_store(&[]).await;
    let failed = store.migrate().await;
    assert!(
        matches!(failed, Err(MigrationError::Failed { version: 4, .. })),
        "{failed:?}"
    );
    place
        .pool()
        .execute("DROP TABLE outbox_delivery")
        .await
        .expect("dropped");
    store.migrate().await.expect("migrated");
}

/// A store that was never migrated has no identity, and says so.
#[tokio::test]
async fn a_store_that_is_not_migrated_has_no_identity() {
    let place = Place::create().await;
    let store = place.bare_store(&[]).await;
    let id = store.resource_id().await;
    assert!(matches!(id, Err(ResourceError::Missing(_))), "{id:?}");
}

/// Two schemas of one database are two stores, and a session of one reaches nothing of the other.
#[tokio::test]
async fn schemas_of_one_database_are_stores_of_their_own() {
    let (one, other) = (Place::create().await, Place::create().await);
    let ids = [
        one.store().await.resource_id().await.expect("id"),
        other.store().await.resource_id().await.expect("id"),
    ];
    assert_ne!(ids[0], ids[1]);
    // Functions keep to the schema they were made in, whatever path their caller has.
    let paths: Vec<Option<String>> = sqlx::query_scalar(
        "SELECT array_to_string(p.proconfig, ';') FROM pg_proc AS p \
         JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1",
    )
    .bind(one.name())
    .fetch_all(one.pool())
    .await
    .expect("functions");
    assert!(!paths.is_empty());
    for path in paths {
        let expected = format!("search_path={}, pg_temp", one.name());
        assert_eq!(path.as_deref(), Some(expected.as_str()));
    }
}
