//! Reads for people and summaries.
//!
//! Invariant: reads run on connections that cannot write, and each answer is one statement, so
//! one snapshot.

use crate::row::{self, CorruptColumn};
use application_core::ports::{DeliverySummary, OutboxCounts, OutboxQueryPort, QueryError};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{DeliveryGeneration, EventId};
use domain_core::publication::{AcceptanceCertainty, FailureClass};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteRow;

/// Reads one store.
#[derive(Debug, Clone)]
pub struct SqliteQuery {
    pub(crate) reads: SqlitePool,
}

fn unavailable(error: sqlx::Error) -> QueryError {
    QueryError::Unavailable(Box::new(error))
}

fn corrupt(column: &CorruptColumn) -> QueryError {
    QueryError::Corrupt {
        what: column.to_string(),
    }
}

#[async_trait::async_trait]
impl OutboxQueryPort for SqliteQuery {
    async fn counts(&self) -> Result<OutboxCounts, QueryError> {
        let rows = sqlx::query(include_str!("sql/count_outbox.sql"))
            .fetch_all(&self.reads)
            .await
            .map_err(unavailable)?;
        let mut counts = OutboxCounts::default();
        for row in &rows {
            add(&mut counts, row).map_err(|column| corrupt(&column))?;
        }
        Ok(counts)
    }

    async fn find_delivery(
        &self,
        event_id: &EventId,
    ) -> Result<Option<DeliverySummary>, QueryError> {
        let row = sqlx::query(include_str!("sql/select_delivery.sql"))
            .bind(event_id.as_str())
            .fetch_optional(&self.reads)
            .await
            .map_err(unavailable)?;
        row.as_ref()
            .map(summary)
            .transpose()
            .map_err(|column| corrupt(&column))
    }

    async fn deliveries_after(
        &self,
        after: Option<&EventId>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, QueryError> {
        // Every event id is greater than the empty text.
        let rows = sqlx::query(include_str!("sql/select_deliveries_after.sql"))
            .bind(after.map_or("", EventId::as_str))
            .bind(limit.clamp(1, 1000))
            .fetch_all(&self.reads)
            .await
            .map_err(unavailable)?;
        rows.iter()
            .map(summary)
            .collect::<Result<_, _>>()
            .map_err(|column| corrupt(&column))
    }
}

fn add(counts: &mut OutboxCounts, row: &SqliteRow) -> Result<(), CorruptColumn> {
    let total = row::number(row, "total", u64::try_from)?;
    let kind: &str = row::value(row, "kind")?;
    match kind {
        "events" => counts.events = total,
        "without_delivery" => counts.without_delivery = total,
        "retried" => counts.retried = total,
        _ => {
            let state = row::name(row, "state", DeliveryStateName::from_name)?;
            counts.by_state.insert(state, total);
        }
    }
    Ok(())
}

fn summary(row: &SqliteRow) -> Result<DeliverySummary, CorruptColumn> {
    let known = "an unknown name";
    Ok(DeliverySummary {
        event_id: row::parsed(row, "event_id")?,
        contract_id: row::parsed(row, "contract_id")?,
        envelope_sha256: row::digest(row, "envelope_sha256")?,
        generation: row::number(row, "delivery_generation", DeliveryGeneration::new)?,
        state: row::name(row, "state", DeliveryStateName::from_name)?,
        claim_count: row::number(row, "claim_count", u32::try_from)?,
        attempt_count: row::number(row, "publication_attempt_count", u32::try_from)?,
        last_certainty: row::optional_text(row, "last_outcome_certainty", |name| {
            AcceptanceCertainty::from_name(name).ok_or(known)
        })?,
        last_failure_class: row::optional_text(row, "last_failure_class", |name| {
            FailureClass::from_name(name).ok_or(known)
        })?,
        record_reference: row::value(row, "provider_record_reference")?,
    })
}
