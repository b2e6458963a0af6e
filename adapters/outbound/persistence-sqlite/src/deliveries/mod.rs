//! The relay's side: Tx B, Tx C, the look-up after a lost answer, and the unknown backlog.
//!
//! Invariant: each method is one `BEGIN IMMEDIATE` transaction; SQLite's single writer stands in
//! for row locks, and every update still names its whole fence and must change one row.

mod claim;
mod find;
mod heads;
mod place;
mod record;
mod renew;
mod scan;
mod window;

pub(crate) use scan::Places;

use crate::encoding;
use crate::row;
use crate::writer::Writer;
use application_core::event::StoredOutboxEvent;
use application_core::ports::{
    BacklogError, ClaimError, ClaimOutcome, ClaimRequest, FindAttemptError, KnownRecord,
    OutboxDeliveryPort, OutcomeRecord, RecordError, RecordOutcome, RecordedAttempt, RenewOutcome,
    RenewRequest, UnknownBacklog, UnknownReason,
};
use domain_core::identity::{ClaimToken, EventId, PublicationAttemptId};
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

/// The relay's transactions on one store.
#[derive(Debug, Clone)]
pub struct SqliteDeliveries {
    pub(crate) writer: Writer,
    pub(crate) reads: SqlitePool,
    pub(crate) places: Arc<Places>,
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for SqliteDeliveries {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        self.claim_one(request).await
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        record::record_outcome(&self.writer, record).await
    }

    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        renew::renew(&self.writer, request).await
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
        let unreadable = self.count_unreadable(known).await;
        match unreadable.map_err(|error| BacklogError(Box::new(error)))? {
            0 => {}
            count => drop(backlog.by_reason.insert(UnknownReason::Unreadable, count)),
        }
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
    UnknownReason::ALL
        .into_iter()
        .find(|reason| reason.as_str() == name)
}

impl SqliteDeliveries {
    async fn count_unreadable(&self, known: &[KnownRecord]) -> Result<u64, EventError> {
        let connection = self.reads.acquire().await;
        let mut connection = connection.map_err(EventError::Database)?;
        heads::count_unreadable(&mut connection, known).await
    }
}

/// Why an event could not be read.
#[derive(Debug, thiserror::Error)]
enum EventError {
    #[error("the database did not answer")]
    Database(#[source] sqlx::Error),
    /// Which row and rule, without its content.
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
}

impl EventError {
    fn corrupt(event_id: &EventId, column: &row::CorruptColumn) -> Self {
        Self::Corrupt(format!("event {event_id}: {column}"))
    }
}

impl From<row::CorruptColumn> for EventError {
    fn from(column: row::CorruptColumn) -> Self {
        Self::Corrupt(column.to_string())
    }
}

/// Whether an event is read with its document, which may be large.
#[derive(Debug, Clone, Copy)]
enum Document {
    Read,
    Left,
}

/// Reads one event by the rows that `connection` sees.
async fn select_event(
    connection: &mut SqliteConnection,
    event_id: &EventId,
    document: Document,
) -> Result<StoredOutboxEvent, EventError> {
    let stored = sqlx::query(include_str!("../sql/select_event.sql"))
        .bind(event_id.as_str())
        .bind(matches!(document, Document::Read))
        .fetch_one(connection)
        .await
        .map_err(EventError::Database)?;
    row::event(&stored).map_err(|column| EventError::corrupt(event_id, &column))
}
