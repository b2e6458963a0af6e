//! The schema, forward only.
//!
//! Invariant: all migrations run in one transaction under the write lock, so two processes that
//! open a new file at once do not meet halfway; a migration that was applied and differs from the
//! one embedded here is refused.

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, SqlSafeStr as _, SqliteConnection};

/// The table that remembers applied migrations. The application's own migrations may share the
/// file, so the name is not the default one.
const TABLE: &str = "countersign_migrations";

/// Version, description and text, in order. A text is never changed once released.
const MIGRATIONS: [(i64, &str, &str); 6] = [
    (
        1,
        "store identity",
        include_str!("../migrations/0001_store_identity.sql"),
    ),
    (
        2,
        "outbox event",
        include_str!("../migrations/0002_outbox_event.sql"),
    ),
    (
        3,
        "outbox delivery",
        include_str!("../migrations/0003_outbox_delivery.sql"),
    ),
    (
        4,
        "inbox consumption",
        include_str!("../migrations/0004_inbox_consumption.sql"),
    ),
    (5, "control", include_str!("../migrations/0005_control.sql")),
    (
        6,
        "claim scan and guards",
        include_str!("../migrations/0006_claim_scan_and_guards.sql"),
    ),
];

/// Brings the schema up to date.
pub(crate) async fn run(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    let mut migrator = Migrator::with_migrations(
        MIGRATIONS
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
    migrator.dangerous_set_table_name(TABLE);
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    // `run` takes any `Acquire`, which makes this future not `Send`.
    migrator.run_direct(None, &mut *tx, false).await?;
    tx.commit().await?;
    Ok(())
}
