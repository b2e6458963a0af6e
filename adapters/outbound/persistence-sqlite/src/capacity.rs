//! How full the outbox is.
//!
//! Invariant: one sample reads one row more than is enough at most, the oldest first, so the count
//! stops there and the age is exact.

use crate::control::SqliteControl;
use application_core::ports::{CapacityError, OutboxCapacityPort};
use domain_core::capacity::BacklogSample;
use domain_core::instant::DatabaseInstant;
use sqlx::Row as _;

#[async_trait::async_trait]
impl OutboxCapacityPort for SqliteControl {
    async fn sample(&self, enough: u64) -> Result<BacklogSample, CapacityError> {
        self.look(enough)
            .await
            .map_err(|error| CapacityError(Box::new(error)))
    }
}

impl SqliteControl {
    async fn look(&self, enough: u64) -> Result<BacklogSample, sqlx::Error> {
        let limit = i64::try_from(enough).unwrap_or(i64::MAX).saturating_add(1);
        let row = sqlx::query(include_str!("sql/sample_backlog.sql"))
            .bind(limit)
            .fetch_one(&self.reads)
            .await?;
        let count = |column| -> Result<u64, sqlx::Error> {
            Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
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
}
