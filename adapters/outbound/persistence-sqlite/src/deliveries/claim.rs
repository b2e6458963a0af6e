//! Tx B: one head is claimed and its attempt journalled, or its spent budget ends it.
//!
//! Invariant: claim, attempt count, `ATTEMPT_ADMITTED` and the closing of an abandoned attempt
//! commit together or not at all.

use super::{EventError, select_event};
use crate::encoding::{known, micros};
use crate::errors::CommitError;
use crate::row::{self, CorruptColumn};
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::ports::{
    AttemptIdentity, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
};
use domain_core::identity::{DeliveryGeneration, EventId};
use domain_core::instant::DatabaseInstant;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;

/// The head that was found, and what is to be done with it.
struct Candidate {
    event_id: EventId,
    generation: DeliveryGeneration,
    row_version: i64,
    lapsed: bool,
    spent: Option<BudgetSpentReason>,
}

/// What the claim's update returned.
struct Lease {
    until: DatabaseInstant,
    claim_count: u32,
    attempt_count: u32,
}

pub(super) async fn claim_next(
    writer: &Writer,
    reads: &SqlitePool,
    request: &ClaimRequest,
) -> Result<ClaimOutcome, ClaimError> {
    // A look without the write lock first: an idle relay never stands in a writer's way.
    if find(reads, request).await?.is_none() {
        return Ok(ClaimOutcome::Nothing);
    }
    let mut tx = writer.begin().await.map_err(unavailable)?;
    let outcome = take(&mut tx, request).await?;
    if matches!(outcome, ClaimOutcome::Nothing) {
        tx.rollback().await;
        return Ok(outcome);
    }
    match tx.commit().await {
        Ok(()) => Ok(outcome),
        Err(CommitError::Unknown(error)) => Err(ClaimError::OutcomeUnknown(Box::new(error))),
        Err(error) => Err(ClaimError::Unavailable(Box::new(error))),
    }
}

fn unavailable(error: sqlx::Error) -> ClaimError {
    ClaimError::Unavailable(Box::new(error))
}

fn corrupt(column: &CorruptColumn) -> ClaimError {
    ClaimError::Corrupt {
        what: column.to_string(),
    }
}

/// Looks for the head to claim, by the rows and the clock that `connection` sees.
async fn find(
    connection: impl sqlx::SqliteExecutor<'_>,
    request: &ClaimRequest,
) -> Result<Option<Candidate>, ClaimError> {
    let found = sqlx::query(include_str!("../sql/select_candidate.sql"))
        .bind(known(&request.known))
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .fetch_optional(connection)
        .await
        .map_err(unavailable)?;
    found
        .as_ref()
        .map(candidate)
        .transpose()
        .map_err(|column| corrupt(&column))
}

/// Acts on the head that is found under the write lock.
async fn take(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
) -> Result<ClaimOutcome, ClaimError> {
    let Some(candidate) = find(tx.connection(), request).await? else {
        return Ok(ClaimOutcome::Nothing);
    };
    if candidate.lapsed {
        close_abandoned(tx, &candidate).await?;
    }
    match candidate.spent {
        Some(reason) => exhaust(tx, request, candidate, reason).await,
        None => claim(tx, request, candidate).await,
    }
}

fn candidate(found: &SqliteRow) -> Result<Candidate, CorruptColumn> {
    Ok(Candidate {
        event_id: row::parsed(found, "event_id")?,
        generation: row::number(found, "delivery_generation", DeliveryGeneration::new)?,
        row_version: row::value(found, "row_version")?,
        lapsed: row::value(found, "lapsed")?,
        spent: row::optional_text(found, "spent", |name| {
            [BudgetSpentReason::Deadline, BudgetSpentReason::Attempts]
                .into_iter()
                .find(|reason| reason.as_str() == name)
                .ok_or("an unknown name")
        })?,
    })
}

async fn close_abandoned(
    tx: &mut SqliteWriteTransaction,
    candidate: &Candidate,
) -> Result<(), ClaimError> {
    let closed = sqlx::query(include_str!("../sql/close_abandoned_attempt.sql"))
        .bind(candidate.event_id.as_str())
        .bind(candidate.generation.value())
        .execute(tx.connection())
        .await
        .map_err(unavailable)?;
    match closed.rows_affected() {
        1 => Ok(()),
        count => Err(ClaimError::Corrupt {
            what: format!("a lapsed claim has {count} open attempts instead of one"),
        }),
    }
}

async fn exhaust(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
    candidate: Candidate,
    reason: BudgetSpentReason,
) -> Result<ClaimOutcome, ClaimError> {
    let exhausted = sqlx::query(include_str!("../sql/exhaust_delivery.sql"))
        .bind(candidate.event_id.as_str())
        .bind(candidate.generation.value())
        .bind(candidate.row_version)
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .execute(tx.connection())
        .await
        .map_err(unavailable)?;
    // The write lock is held, so only a clock that went back can make the fence fail.
    if exhausted.rows_affected() != 1 {
        return Ok(ClaimOutcome::Nothing);
    }
    Ok(ClaimOutcome::BudgetSpent {
        event_id: candidate.event_id,
        generation: candidate.generation,
        reason,
    })
}

async fn claim(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
    candidate: Candidate,
) -> Result<ClaimOutcome, ClaimError> {
    let claimed = sqlx::query(include_str!("../sql/claim_delivery.sql"))
        .bind(candidate.event_id.as_str())
        .bind(candidate.generation.value())
        .bind(candidate.row_version)
        .bind(request.token.as_bytes().as_slice())
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .fetch_optional(tx.connection())
        .await
        .map_err(unavailable)?;
    // The write lock is held, so only a clock that moved can make the fence fail.
    let Some(claimed) = claimed else {
        return Ok(ClaimOutcome::Nothing);
    };
    let lease = lease(&claimed).map_err(|column| corrupt(&column))?;
    let admitted = sqlx::query(include_str!("../sql/admit_attempt.sql"))
        .bind(candidate.event_id.as_str())
        .bind(candidate.generation.value())
        .bind(request.attempt_id.as_str())
        .bind(request.token.digest().as_bytes().as_slice())
        .bind(request.producer_generation.as_str())
        .execute(tx.connection())
        .await
        .map_err(unavailable)?;
    if admitted.rows_affected() != 1 {
        return Err(ClaimError::Corrupt {
            what: "a claimed delivery is gone".to_owned(),
        });
    }
    let event = select_event(tx.connection(), candidate.event_id.as_str())
        .await
        .map_err(|error| match error {
            EventError::Database(error) => unavailable(error),
            EventError::Corrupt(column) => ClaimError::Corrupt {
                what: format!("event {}: {column}", candidate.event_id),
            },
        })?;
    Ok(ClaimOutcome::Claimed(Box::new(ClaimedDelivery {
        attempt: AttemptIdentity {
            event_id: candidate.event_id,
            generation: candidate.generation,
            attempt_id: request.attempt_id.clone(),
            claim_token: request.token,
        },
        owner: request.owner.clone(),
        event: Arc::new(event),
        claim_until: lease.until,
        claim_count: lease.claim_count,
        attempt_count: lease.attempt_count,
    })))
}

fn lease(claimed: &SqliteRow) -> Result<Lease, CorruptColumn> {
    Ok(Lease {
        until: DatabaseInstant::from_epoch_micros(row::value(claimed, "claim_until")?),
        claim_count: row::number(claimed, "claim_count", u32::try_from)?,
        attempt_count: row::number(claimed, "publication_attempt_count", u32::try_from)?,
    })
}
