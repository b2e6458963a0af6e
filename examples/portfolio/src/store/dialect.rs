//! The statements of both dialects, run through a connection that the caller owns.
//!
//! Invariant: both dialects run the same calls over files of the same names, so neither can do
//! what the other does not; nothing here begins or ends a transaction.

use super::rows::{self, CountsRow, EntryRow, PosterRow, WorkLogColumns, WorkLogRow};
use super::{
    Observation, PortfolioDatabase, PortfolioRepository, ReadModelCounts, ReadModelEntry,
    ReadModelStore, StoreError,
};
use crate::model::{Poster, WorkLog, first_version};
use application_core::ports::WriteTransaction;
use domain_core::identity::{AggregateId, AggregateIdentity};
use std::future::Future;

/// Implements the three store traits for one dialect.
macro_rules! dialect {
    ($(#[$meta:meta])* $name:ident, $connection:ty, $folder:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl<Tx> PortfolioRepository<Tx> for $name
        where
            Tx: WriteTransaction + AsMut<$connection>,
        {
            fn find_work_log<'t>(
                &'t self,
                tx: &'t mut Tx,
                id: &'t AggregateId,
            ) -> impl Future<Output = Result<Option<WorkLog>, StoreError>> + Send + 't {
                let connection: &'t mut $connection = tx.as_mut();
                async move {
                    let row: Option<WorkLogRow> =
                        sqlx::query_as(include_str!(concat!("sql/", $folder, "/find_work_log.sql")))
                            .bind(id.as_str())
                            .fetch_optional(connection)
                            .await?;
                    row.map(|row| rows::work_log(id, row)).transpose()
                }
            }

            fn save_work_log<'t>(
                &'t self,
                tx: &'t mut Tx,
                work_log: &'t WorkLog,
            ) -> impl Future<Output = Result<(), StoreError>> + Send + 't {
                let connection: &'t mut $connection = tx.as_mut();
                async move {
                    let columns = WorkLogColumns::of(work_log);
                    let statement = if work_log.version == first_version() {
                        include_str!(concat!("sql/", $folder, "/insert_work_log.sql"))
                    } else {
                        include_str!(concat!("sql/", $folder, "/update_work_log.sql"))
                    };
                    let done = sqlx::query(statement)
                        .bind(work_log.id.as_str())
                        .bind(work_log.version.value())
                        .bind(work_log.title.as_str())
                        .bind(work_log.minutes)
                        .bind(columns.tags)
                        .bind(columns.status)
                        .bind(columns.minutes_spent)
                        .bind(columns.follow_up_needed)
                        .execute(connection)
                        .await?;
                    saved(done.rows_affected())
                }
            }

            fn find_poster<'t>(
                &'t self,
                tx: &'t mut Tx,
                id: &'t AggregateId,
            ) -> impl Future<Output = Result<Option<Poster>, StoreError>> + Send + 't {
                let connection: &'t mut $connection = tx.as_mut();
                async move {
                    let row: Option<PosterRow> =
                        sqlx::query_as(include_str!(concat!("sql/", $folder, "/find_poster.sql")))
                            .bind(id.as_str())
                            .fetch_optional(connection)
                            .await?;
                    row.map(|row| rows::poster(id, row)).transpose()
                }
            }

            fn save_poster<'t>(
                &'t self,
                tx: &'t mut Tx,
                poster: &'t Poster,
            ) -> impl Future<Output = Result<(), StoreError>> + Send + 't {
                let connection: &'t mut $connection = tx.as_mut();
                async move {
                    let statement = if poster.version == first_version() {
                        include_str!(concat!("sql/", $folder, "/insert_poster.sql"))
                    } else {
                        include_str!(concat!("sql/", $folder, "/update_poster.sql"))
                    };
                    let done = sqlx::query(statement)
                        .bind(poster.id.as_str())
                        .bind(poster.version.value())
                        .bind(poster.title.as_str())
                        .bind(poster.edition)
                        .bind(poster.audience.as_str())
                        .bind(poster.author_name.as_str())
                        .bind(poster.author_team.as_str())
                        .bind(poster.on_display_until.as_str())
                        .execute(connection)
                        .await?;
                    saved(done.rows_affected())
                }
            }
        }

        impl<Tx> ReadModelStore<Tx> for $name
        where
            Tx: WriteTransaction + AsMut<$connection>,
        {
            fn observe<'t>(
                &'t self,
                tx: &'t mut Tx,
                observation: &'t Observation,
            ) -> impl Future<Output = Result<(), StoreError>> + Send + 't {
                let connection: &'t mut $connection = tx.as_mut();
                async move {
                    let (kind, id, title, status, sequence) = rows::observation(observation);
                    sqlx::query(include_str!(concat!(
                        "sql/",
                        $folder,
                        "/apply_to_read_model.sql"
                    )))
                    .bind(kind)
                    .bind(id)
                    .bind(title)
                    .bind(status)
                    .bind(sequence)
                    .execute(connection)
                    .await?;
                    Ok(())
                }
            }
        }

        impl PortfolioDatabase<$connection> for $name {
            fn create_tables<'c>(
                &'c self,
                connection: &'c mut $connection,
            ) -> impl Future<Output = Result<(), StoreError>> + Send + 'c {
                async move {
                    for statement in [
                        include_str!(concat!("sql/", $folder, "/create_work_log.sql")),
                        include_str!(concat!("sql/", $folder, "/create_poster.sql")),
                        include_str!(concat!("sql/", $folder, "/create_read_model.sql")),
                    ] {
                        sqlx::query(statement).execute(&mut *connection).await?;
                    }
                    Ok(())
                }
            }

            fn read_model_counts<'c>(
                &'c self,
                connection: &'c mut $connection,
            ) -> impl Future<Output = Result<ReadModelCounts, StoreError>> + Send + 'c {
                async move {
                    let row: CountsRow = sqlx::query_as(include_str!(concat!(
                        "sql/",
                        $folder,
                        "/count_read_model.sql"
                    )))
                    .fetch_one(connection)
                    .await?;
                    rows::counts(row)
                }
            }

            fn read_model_after<'c>(
                &'c self,
                connection: &'c mut $connection,
                after: Option<&'c AggregateIdentity>,
                limit: u16,
            ) -> impl Future<Output = Result<Vec<ReadModelEntry>, StoreError>> + Send + 'c {
                async move {
                    let (kind, id) = rows::key(after);
                    let found: Vec<EntryRow> = sqlx::query_as(include_str!(concat!(
                        "sql/",
                        $folder,
                        "/list_read_model.sql"
                    )))
                    .bind(kind)
                    .bind(id)
                    .bind(i64::from(limit))
                    .fetch_all(connection)
                    .await?;
                    found.into_iter().map(rows::entry).collect()
                }
            }
        }
    };
}

dialect!(
    /// The sample's tables on SQLite.
    SqlitePortfolio,
    sqlx::SqliteConnection,
    "sqlite"
);
dialect!(
    /// The sample's tables on PostgreSQL, in the first schema of the connection's search path.
    PostgresPortfolio,
    sqlx::PgConnection,
    "postgres"
);

fn saved(rows: u64) -> Result<(), StoreError> {
    match rows {
        1 => Ok(()),
        _ => Err(StoreError::Stale),
    }
}
