//! Tx C: the outcome is journalled and the delivery moves, under the valid-lease token CAS.
//!
//! Invariant: exactly one row moves, or nothing is written at all (requirement 004 §18.6).

use crate::encoding::micros;
use crate::errors::CommitError;
use crate::writer::Writer;
use application_core::ports::{OutcomeRecord, RecordError, RecordOutcome};
use domain_core::delivery::DeliveryStateName;
use sqlx::SqliteConnection;

/// Why a record was not written. Whatever its statements did is undone with the transaction.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedRecord {
    #[error("the database refused the outcome")]
    Database(#[source] sqlx::Error),
    /// A delivery moved, and its outcome was not journalled once.
    #[error("{0} outcomes were journalled for a delivery that moved")]
    NotObserved(u64),
}

pub(super) async fn record_outcome(
    writer: &Writer,
    record: &OutcomeRecord,
) -> Result<RecordOutcome, RecordError> {
    let unavailable = |error: sqlx::Error| RecordError::Unavailable(Box::new(error));
    let mut tx = writer.begin().await.map_err(unavailable)?;
    let outcome = record_one(tx.connection(), record)
        .await
        .map_err(|error| RecordError::Unavailable(Box::new(error)))?;
    if outcome == RecordOutcome::Stale {
        tx.rollback().await;
        return Ok(outcome);
    }
    match tx.commit().await {
        Ok(()) => Ok(outcome),
        Err(CommitError::Unknown(error)) => Err(RecordError::OutcomeUnknown(Box::new(error))),
        Err(error) => Err(RecordError::Unavailable(Box::new(error))),
    }
}

/// Moves one delivery and journals its outcome; a stale record writes nothing.
pub(super) async fn record_one(
    connection: &mut SqliteConnection,
    record: &OutcomeRecord,
) -> Result<RecordOutcome, RefusedRecord> {
    let state = record.decision.state();
    if !move_delivery(connection, record, state)
        .await
        .map_err(RefusedRecord::Database)?
    {
        return Ok(RecordOutcome::Stale);
    }
    match observe(connection, record)
        .await
        .map_err(RefusedRecord::Database)?
    {
        1 => Ok(RecordOutcome::Recorded(state)),
        observed => Err(RefusedRecord::NotObserved(observed)),
    }
}

/// Whether token, owner, lease and attempt still held, and the row moved.
async fn move_delivery(
    connection: &mut SqliteConnection,
    record: &OutcomeRecord,
    state: DeliveryStateName,
) -> Result<bool, sqlx::Error> {
    let failure = record.outcome.failure();
    // Only a recorded delivery says where the broker has the record; a misroute's reference is
    // in the journal.
    let reference = record
        .outcome
        .receipt()
        .filter(|_| state == DeliveryStateName::DeliveryRecorded)
        .map(|receipt| receipt.record_reference.as_str());
    let moved = sqlx::query(include_str!("../sql/record_outcome.sql"))
        .bind(record.attempt.event_id.as_str())
        .bind(record.attempt.generation.value())
        .bind(record.attempt.claim_token.as_bytes().as_slice())
        .bind(record.owner.as_str())
        .bind(record.attempt.attempt_id.as_str())
        .bind(record.attempt.claim_token.digest().as_bytes().as_slice())
        .bind(state.as_str())
        .bind(micros(record.decision.delay()))
        .bind(record.outcome.certainty().as_str())
        .bind(failure.map(|failure| failure.class.as_str()))
        .bind(failure.map(|failure| failure.stage.as_str()))
        .bind(record.producer_generation.as_str())
        .bind(reference)
        .execute(connection)
        .await?;
    Ok(moved.rows_affected() == 1)
}

async fn observe(
    connection: &mut SqliteConnection,
    record: &OutcomeRecord,
) -> Result<u64, sqlx::Error> {
    let failure = record.outcome.failure();
    let observed = sqlx::query(include_str!("../sql/observe_outcome.sql"))
        .bind(record.attempt.event_id.as_str())
        .bind(record.attempt.generation.value())
        .bind(record.attempt.attempt_id.as_str())
        .bind(record.attempt.claim_token.digest().as_bytes().as_slice())
        .bind(record.producer_generation.as_str())
        .bind(record.binding_revision.as_str())
        .bind(record.outcome.certainty().as_str())
        .bind(record.outcome.disposition().as_str())
        .bind(failure.map(|failure| failure.class.as_str()))
        .bind(failure.map(|failure| failure.stage.as_str()))
        .bind(
            record
                .outcome
                .receipt()
                .map(|receipt| receipt.record_reference.as_str()),
        )
        .execute(connection)
        .await?;
    Ok(observed.rows_affected())
}
