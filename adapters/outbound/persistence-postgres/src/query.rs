//! Reading the outbox, for people and summaries.
//!
//! Invariant: every read is one statement in a READ ONLY transaction, so its numbers agree with
//! each other.

use crate::errors::DatabaseFault;
use crate::rows::{ReadError, StoredRow};
use crate::session::{Access, Sessions};
use application_core::ports::{DeliverySummary, OutboxCounts, OutboxQueryPort, QueryError};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{ContractId, DeliveryGeneration, EventId};
use domain_core::publication::{AcceptanceCertainty, FailureClass};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use std::sync::Arc;

/// Reads of one store.
#[derive(Clone)]
pub struct PostgresQuery {
    pub(crate) sessions: Arc<Sessions>,
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Database(fault) => Self::Unavailable(Box::new(fault)),
            ReadError::Corrupt(what) => Self::Corrupt { what },
        }
    }
}

#[async_trait::async_trait]
impl OutboxQueryPort for PostgresQuery {
    async fn counts(&self) -> Result<OutboxCounts, QueryError> {
        let rows = self.count().await.map_err(ReadError::Database)?;
        Ok(counts(&rows)?)
    }

    async fn find_delivery(
        &self,
        event_id: &EventId,
    ) -> Result<Option<DeliverySummary>, QueryError> {
        let row = self.find(event_id).await.map_err(ReadError::Database)?;
        Ok(row.map(|row| summary(&row)).transpose()?)
    }

    async fn deliveries_after(
        &self,
        after: Option<&EventId>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, QueryError> {
        let rows = self.page(after, limit).await.map_err(ReadError::Database)?;
        Ok(rows.iter().map(summary).collect::<Result<_, _>>()?)
    }
}

impl PostgresQuery {
    async fn count(&self) -> Result<Vec<PgRow>, DatabaseFault> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        Ok(sqlx::query(include_str!("sql/counts.sql"))
            .fetch_all(&mut *tx)
            .await?)
    }

    async fn find(&self, event_id: &EventId) -> Result<Option<PgRow>, DatabaseFault> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        Ok(sqlx::query(include_str!("sql/find_delivery.sql"))
            .bind(event_id.as_str())
            .fetch_optional(&mut *tx)
            .await?)
    }

    async fn page(&self, after: Option<&EventId>, limit: u32) -> Result<Vec<PgRow>, DatabaseFault> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        Ok(sqlx::query(include_str!("sql/deliveries_after.sql"))
            .bind(after.map(EventId::as_str))
            .bind(i64::from(limit.clamp(1, 1000)))
            .fetch_all(&mut *tx)
            .await?)
    }
}

fn counts(rows: &[PgRow]) -> Result<OutboxCounts, ReadError> {
    let mut counts = OutboxCounts::default();
    for row in rows {
        let what: &str = row.try_get("what")?;
        let number: i64 = row.try_get("number")?;
        let number = u64::try_from(number).map_err(|_| ReadError::corrupt("a negative count"))?;
        match what {
            "events" => counts.events = number,
            "without_delivery" => counts.without_delivery = number,
            "retried" => counts.retried = number,
            _ => {
                let state = DeliveryStateName::from_name(row.try_get("state")?)
                    .ok_or_else(|| ReadError::corrupt("a delivery's state"))?;
                counts.by_state.insert(state, number);
            }
        }
    }
    Ok(counts)
}

fn summary(row: &PgRow) -> Result<DeliverySummary, ReadError> {
    let row = StoredRow::new(row)?;
    Ok(DeliverySummary {
        event_id: row.event_id(),
        contract_id: row.text("contract_id", ContractId::parse)?,
        envelope_sha256: row.digest("envelope_sha256")?,
        generation: row.number("delivery_generation", DeliveryGeneration::new)?,
        state: row.name("state", DeliveryStateName::from_name)?,
        claim_count: row.count("claim_count")?,
        attempt_count: row.count("publication_attempt_count")?,
        last_certainty: row
            .optional_name("last_outcome_certainty", AcceptanceCertainty::from_name)?,
        last_failure_class: row.optional_name("last_failure_class", FailureClass::from_name)?,
        record_reference: row.get("provider_record_reference")?,
    })
}
