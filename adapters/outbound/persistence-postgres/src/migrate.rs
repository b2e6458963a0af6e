//! The schema, forward only.
//!
//! Invariant: a migration that was applied never changes (its checksum is compared at every run),
//! and one process at a time applies them (a session-level advisory lock).

use crate::errors::DatabaseFault;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Executor as _, SqlSafeStr as _};

/// Where applied migrations are remembered. It has a name of its own, since the business tables
/// beside it may be migrated by the same library under its default name.
const TABLE: &str = "countersign_migration";

const MIGRATIONS: [(i64, &str, &str); 10] = [
    (
        1,
        "transaction resource",
        include_str!("../migrations/0001_transaction_resource.sql"),
    ),
    (
        2,
        "publication epoch",
        include_str!("../migrations/0002_publication_epoch.sql"),
    ),
    (
        3,
        "outbox event",
        include_str!("../migrations/0003_outbox_event.sql"),
    ),
    (
        4,
        "outbox delivery",
        include_str!("../migrations/0004_outbox_delivery.sql"),
    ),
    (
        5,
        "attempt observation",
        include_str!("../migrations/0005_attempt_observation.sql"),
    ),
    (
        6,
        "inbox consumption",
        include_str!("../migrations/0006_inbox_consumption.sql"),
    ),
    (
        7,
        "claim scan",
        include_str!("../migrations/0007_claim_scan.sql"),
    ),
    (
        8,
        "write admission",
        include_str!("../migrations/0008_write_admission.sql"),
    ),
    (
        9,
        "disposition and retention",
        include_str!("../migrations/0009_disposition_and_retention.sql"),
    ),
    (
        10,
        "recent claimable",
        include_str!("../migrations/0010_recent_claimable.sql"),
    ),
];

/// Why the schema is not up to date. Migrations before the failed one are applied.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// An applied migration is not the one this build has.
    #[error("migration {0} was applied with another content")]
    Changed(i64),
    /// The database has a migration that this build does not know: it is from a later version.
    #[error("migration {0} was applied by a later version")]
    Unknown(i64),
    /// A migration failed and was rolled back.
    #[error("migration {version} failed")]
    Failed {
        /// Which one.
        version: i64,
        /// Why.
        #[source]
        source: DatabaseFault,
    },
    /// The database cannot be reached or does not answer as it should.
    #[error("the database cannot be migrated")]
    Unavailable(#[source] DatabaseFault),
}

/// States what a migration relies on, whatever the session's defaults are, and bounds its waits.
const SESSION: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED \
                       READ WRITE; SET lock_timeout = '60s'";

/// Applies what is missing, on a session of its own that ends with it: the library gives its
/// advisory lock back only after success, and a pooled session would go on holding it.
pub(crate) async fn run(pool: &PgPool) -> Result<(), MigrationError> {
    let session = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(pool.options().get_acquire_timeout())
        .after_connect(|session, _| {
            Box::pin(async move {
                session.execute(SESSION).await?;
                Ok(())
            })
        })
        .connect_lazy_with(pool.connect_options().as_ref().clone());
    let migrated = on(&session).await;
    session.close().await;
    migrated
}

async fn on(session: &PgPool) -> Result<(), MigrationError> {
    let migrations = MIGRATIONS
        .iter()
        .map(|(version, description, sql)| {
            Migration::new(
                *version,
                (*description).into(),
                MigrationType::Simple,
                sql.into_sql_str(),
                false,
            )
        })
        .collect();
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.dangerous_set_table_name(TABLE);
    migrator.run(session).await.map_err(|error| match error {
        MigrateError::VersionMismatch(version) => MigrationError::Changed(version),
        MigrateError::VersionMissing(version) => MigrationError::Unknown(version),
        MigrateError::ExecuteMigration(error, version) => MigrationError::Failed {
            version,
            source: error.into(),
        },
        MigrateError::Execute(error) => MigrationError::Unavailable(error.into()),
        _ => MigrationError::Unavailable(DatabaseFault::Driver),
    })
}
