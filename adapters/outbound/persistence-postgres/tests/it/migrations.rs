//! The schema's own life.
//!
//! Invariant: migrations run once, one process at a time, and never over something they do not
//! know.

use crate::place::Place;
use crate::sample::{acknowledged, claimed, event, request};
use application_core::ports::{
    OutboxDeliveryPort as _, RecordOutcome, ResourceError, TransactionResourcePort as _,
};
use outbound_persistence_postgres::MigrationError;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Executor as _, SqlSafeStr as _};
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
    assert_eq!(applied, 10);
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

/// The first six migrations, as a released store has them.
const RELEASED: [(i64, &str, &str); 6] = [
    (
        1,
        "transaction resource",
        include_str!("../../migrations/0001_transaction_resource.sql"),
    ),
    (
        2,
        "publication epoch",
        include_str!("../../migrations/0002_publication_epoch.sql"),
    ),
    (
        3,
        "outbox event",
        include_str!("../../migrations/0003_outbox_event.sql"),
    ),
    (
        4,
        "outbox delivery",
        include_str!("../../migrations/0004_outbox_delivery.sql"),
    ),
    (
        5,
        "attempt observation",
        include_str!("../../migrations/0005_attempt_observation.sql"),
    ),
    (
        6,
        "inbox consumption",
        include_str!("../../migrations/0006_inbox_consumption.sql"),
    ),
];

/// A store with a backlog is brought forward with everything in it, and its events go on.
#[tokio::test]
async fn a_released_store_is_brought_forward_with_its_backlog() {
    let place = Place::create().await;
    let store = place.bare_store(&[]).await;
    let mut session = place.session().await;
    let mut migrator = Migrator::with_migrations(
        RELEASED
            .into_iter()
            .map(|(version, description, sql)| {
                Migration::new(
                    version,
                    description.into(),
                    MigrationType::Simple,
                    sql.into_sql_str(),
                    false,
                )
            })
            .collect(),
    );
    migrator.dangerous_set_table_name("countersign_migration");
    migrator
        .run_direct(None, &mut session, false)
        .await
        .expect("released");
    // Two events of one scope, written as the released build wrote them.
    for sequence in [1, 2] {
        let one = event(&format!("old-{sequence}"), "a", sequence);
        let (identities, schemas) = (one.identities(), one.schemas());
        sqlx::query(
            "WITH event AS ( \
                 INSERT INTO outbox_event (event_id, envelope_version, contract_id, \
                     payload_version, logical_destination_id, destination_binding_revision, \
                     aggregate_type, aggregate_id, aggregate_sequence, aggregate_event_index, \
                     partition_key_text, occurred_at, tenant_scope, correlation_id, content_type, \
                     envelope_bytes, envelope_sha256, envelope_schema_hash, payload_schema_hash, \
                     schema_set_hash, contract_catalog_revision, ordering_required, \
                     publication_epoch, dispatch_authority, transaction_resource_id) \
                 SELECT $1, 1, $2, 1, $3, $4, $5, $6, $7, 0, $8, timestamp '2026-07-28', \
                     'system', 'correlation', 'application/json', $9, $10, $11, $12, $13, $14, \
                     true, 1, 'POLLING_V2', resource_id \
                 FROM transaction_resource RETURNING event_id \
             ) \
             INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
                 dispatch_profile_id, state, automatic_attempt_deadline) \
             SELECT event_id, 1, 'CURRENT', 'p', 'READY', clock_timestamp() + interval '1 day' \
             FROM event",
        )
        .bind(identities.event_id.as_str())
        .bind(identities.contract_id.as_str())
        .bind(identities.destination.as_str())
        .bind(one.binding_revision().as_str())
        .bind(identities.aggregate.aggregate_type().as_str())
        .bind(identities.aggregate.id().as_str())
        .bind(sequence)
        .bind(one.partition_key().as_str())
        .bind(one.envelope())
        .bind(&one.envelope_sha256().as_bytes()[..])
        .bind(&schemas.envelope_schema.as_bytes()[..])
        .bind(&schemas.payload_schema.as_bytes()[..])
        .bind(&schemas.schema_set.as_bytes()[..])
        .bind(&schemas.catalog_revision.as_bytes()[..])
        .execute(&mut session)
        .await
        .expect("an event of the released build");
    }
    store.migrate().await.expect("brought forward");
    for (number, id) in [(1, "old-1"), (2, "old-2")] {
        let claim = claimed(&store, &request(number)).await;
        assert_eq!(claim.attempt.event_id.as_str(), id);
        let recorded = store
            .deliveries()
            .record_outcome(&acknowledged(&claim))
            .await;
        assert!(
            matches!(recorded, Ok(RecordOutcome::Recorded(_))),
            "{recorded:?}"
        );
    }
}
