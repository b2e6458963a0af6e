//! How full the outbox is.
//!
//! Invariant: one sample reads at most one row more than the count that is of interest, through the
//! partial index of unresolved rows, however many recorded ones lie beside them (requirement 004
//! §19.8).

use crate::errors::DatabaseFault;
use crate::session::{Access, Sessions};
use application_core::ports::{CapacityError, OutboxCapacityPort};
use domain_core::capacity::BacklogSample;
use domain_core::instant::DatabaseInstant;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use std::sync::Arc;

/// Measures one store.
///
/// While the backlog is within `enough`, both numbers are exact. Above it the count stops at one
/// more, and the age is that of the oldest row among those looked at: at most the true one. An index
/// by age would make it exact there too, at the price of one more entry in every append; a caller
/// that passes its quota as `enough` knows by then that the quota is passed.
#[derive(Clone)]
pub struct PostgresCapacity {
    pub(crate) sessions: Arc<Sessions>,
}

#[async_trait::async_trait]
impl OutboxCapacityPort for PostgresCapacity {
    async fn sample(&self, enough: u64) -> Result<BacklogSample, CapacityError> {
        self.look(enough)
            .await
            .map_err(|fault| CapacityError(Box::new(fault)))
    }
}

impl PostgresCapacity {
    async fn look(&self, enough: u64) -> Result<BacklogSample, DatabaseFault> {
        // Not a read-only transaction: a batch's settings keep the planner on the partial index.
        let mut tx = self.sessions.begin(Access::Batch).await?;
        let row = sqlx::query(include_str!("sql/sample_backlog.sql"))
            .bind(i64::try_from(enough).unwrap_or(i64::MAX).saturating_add(1))
            .fetch_one(&mut *tx)
            .await?;
        Ok(sample(&row)?)
    }
}

fn sample(row: &PgRow) -> Result<BacklogSample, sqlx::Error> {
    let count = |column: &str| -> Result<u64, sqlx::Error> {
        let number: i64 = row.try_get(column)?;
        u64::try_from(number).map_err(|error| sqlx::Error::ColumnDecode {
            index: column.to_owned(),
            source: Box::new(error),
        })
    };
    Ok(BacklogSample {
        at: DatabaseInstant::from_epoch_micros(row.try_get("now")?),
        unresolved: count("unresolved")?,
        oldest: row
            .try_get::<Option<i64>, _>("oldest")?
            .map(DatabaseInstant::from_epoch_micros),
        store_bytes: count("store_bytes")?,
    })
}
