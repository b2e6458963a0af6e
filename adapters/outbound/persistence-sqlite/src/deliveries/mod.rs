//! The relay's side: Tx B, Tx C, the look-up after a lost answer, and the unknown backlog.
//!
//! Invariant: each method is one `BEGIN IMMEDIATE` transaction; SQLite's single writer stands in
//! for row locks, and every update still names its whole fence and must change one row.

mod claim;
mod find;
mod record;

use crate::encoding;
use crate::row;
use crate::writer::Writer;
use application_core::event::StoredOutboxEvent;
use application_core::ports::{
    BacklogError, ClaimError, ClaimOutcome, ClaimRequest, FindAttemptError, KnownRecord,
    OutboxDeliveryPort, OutcomeRecord, RecordError, RecordOutcome, RecordedAttempt, UnknownBacklog,
    UnknownReason,
};
use domain_core::identity::{ClaimToken, PublicationAttemptId};
use sqlx::{SqliteConnection, SqlitePool};

/// The relay's transactions on one store.
#[derive(Debug, Clone)]
pub struct SqliteDeliveries {
    pub(crate) writer: Writer,
    pub(crate) reads: SqlitePool,
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for SqliteDeliveries {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        claim::claim_next(&self.writer, &self.reads, request).await
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        record::record_outcome(&self.writer, record).await
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        find::find_attempt(&self.writer, token, attempt_id).await
    }

    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        let rows = sqlx::query(include_str!("../sql/count_unknown.sql"))
            .bind(encoding::known(known))
            .fetch_all(&self.reads)
            .await
            .map_err(|error| BacklogError(Box::new(error)))?;
        let mut backlog = UnknownBacklog::default();
        for row in &rows {
            let counted = (|| {
                let reason = row::name(row, "reason", reason)?;
                Ok((reason, row::number(row, "total", u64::try_from)?))
            })();
            let (reason, total) =
                counted.map_err(|error: row::CorruptColumn| BacklogError(Box::new(error)))?;
            backlog.by_reason.insert(reason, total);
        }
        Ok(backlog)
    }
}

fn reason(name: &str) -> Option<UnknownReason> {
    [
        UnknownReason::ContractVersion,
        UnknownReason::SchemaHash,
        UnknownReason::BindingRevision,
    ]
    .into_iter()
    .find(|reason| reason.as_str() == name)
}

/// Why an event could not be read.
enum EventError {
    Database(sqlx::Error),
    Corrupt(row::CorruptColumn),
}

/// Reads one event, whole, in the transaction under way.
async fn select_event(
    connection: &mut SqliteConnection,
    event_id: &str,
) -> Result<StoredOutboxEvent, EventError> {
    let stored = sqlx::query(include_str!("../sql/select_event.sql"))
        .bind(event_id)
        .fetch_one(connection)
        .await
        .map_err(EventError::Database)?;
    row::event(&stored).map_err(EventError::Corrupt)
}
