//! What became of an attempt whose commit was not answered.
//!
//! Invariant: the look-up takes the write lock, so no transaction that could still change its
//! answer is under way.

use super::{Document, EventError, select_event};
use crate::row::{self, CorruptColumn};
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::ports::{
    AttemptIdentity, ClaimedDelivery, FindAttemptError, RecordedAttempt,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{ClaimToken, DeliveryGeneration, EventId, PublicationAttemptId};
use domain_core::instant::DatabaseInstant;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;

pub(super) async fn find_attempt(
    writer: &Writer,
    token: &ClaimToken,
    attempt_id: &PublicationAttemptId,
) -> Result<RecordedAttempt, FindAttemptError> {
    let mut tx = writer.begin().await.map_err(unavailable)?;
    let found = look_up(&mut tx, token, attempt_id).await;
    tx.rollback().await;
    found
}

fn unavailable(error: sqlx::Error) -> FindAttemptError {
    FindAttemptError::Unavailable(Box::new(error))
}

fn corrupt(column: &CorruptColumn) -> FindAttemptError {
    FindAttemptError::Corrupt {
        what: column.to_string(),
    }
}

async fn look_up(
    tx: &mut SqliteWriteTransaction,
    token: &ClaimToken,
    attempt_id: &PublicationAttemptId,
) -> Result<RecordedAttempt, FindAttemptError> {
    let found = sqlx::query(include_str!("../sql/select_attempt.sql"))
        .bind(attempt_id.as_str())
        .bind(token.digest().as_bytes().as_slice())
        .bind(token.as_bytes().as_slice())
        .fetch_optional(tx.connection())
        .await
        .map_err(unavailable)?;
    let Some(found) = found else {
        return Ok(RecordedAttempt::Unknown);
    };
    if let Some(ended) = ended(&found).map_err(|column| corrupt(&column))? {
        return Ok(ended);
    }
    let event_id: EventId = row::parsed(&found, "event_id").map_err(|error| corrupt(&error))?;
    let event = select_event(tx.connection(), &event_id, Document::Read)
        .await
        .map_err(|error| match error {
            EventError::Database(error) => unavailable(error),
            EventError::Corrupt(what) => FindAttemptError::Corrupt { what },
        })?;
    let attempt = |generation| AttemptIdentity {
        event_id,
        generation,
        attempt_id: attempt_id.clone(),
        claim_token: *token,
    };
    let claimed = (|| {
        Ok(ClaimedDelivery {
            attempt: attempt(row::number(
                &found,
                "delivery_generation",
                DeliveryGeneration::new,
            )?),
            owner: row::parsed(&found, "claim_owner")?,
            event: Arc::new(event),
            claim_until: DatabaseInstant::from_epoch_micros(row::value(&found, "claim_until")?),
            claim_count: row::number(&found, "claim_count", u32::try_from)?,
            attempt_count: row::number(&found, "publication_attempt_count", u32::try_from)?,
        })
    })();
    let claimed = claimed.map_err(|error: CorruptColumn| corrupt(&error))?;
    Ok(RecordedAttempt::Open(Box::new(claimed)))
}

/// The answer for an attempt that is not under way any more.
fn ended(found: &SqliteRow) -> Result<Option<RecordedAttempt>, CorruptColumn> {
    if row::value(found, "abandoned")? {
        return Ok(Some(RecordedAttempt::Lost));
    }
    if row::value(found, "closed")? {
        let state = row::name(found, "state", DeliveryStateName::from_name)?;
        return Ok(Some(RecordedAttempt::Closed(state)));
    }
    let held: bool = row::value(found, "held")?;
    Ok((!held).then_some(RecordedAttempt::Lost))
}
