//! Tx B: one head is claimed and its attempt journalled, or its spent budget ends it.
//!
//! Invariant: claim, attempt count, `ATTEMPT_ADMITTED` and the closing of an abandoned attempt
//! commit together or not at all.

use super::heads::{Head, first_readable};
use super::{Document, EventError};
use crate::encoding::micros;
use crate::errors::CommitError;
use crate::row::{self, CorruptColumn};
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::ports::{
    AttemptIdentity, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
};
use domain_core::instant::DatabaseInstant;
use sqlx::sqlite::SqliteRow;
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;

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
    // A look without the write lock first: a relay without work never stands in a writer's way.
    {
        let mut look = reads.acquire().await.map_err(unavailable)?;
        if find(&mut look, request, Document::Left).await?.is_none() {
            return Ok(ClaimOutcome::Nothing);
        }
    }
    let mut tx = writer.begin().await.map_err(unavailable)?;
    let outcome = take(&mut tx, request).await?;
    if matches!(outcome, ClaimOutcome::Nothing) {
        tx.rollback().await;
        return Ok(outcome);
    }
    committed(tx).await?;
    Ok(outcome)
}

/// Commits a claim.
pub(super) async fn committed(tx: SqliteWriteTransaction) -> Result<(), ClaimError> {
    match tx.commit().await {
        Ok(()) => Ok(()),
        Err(CommitError::Unknown(error)) => Err(ClaimError::OutcomeUnknown(Box::new(error))),
        Err(error) => Err(ClaimError::Unavailable(Box::new(error))),
    }
}

/// What was done about the next head.
pub(super) struct Taken {
    pub(super) outcome: ClaimOutcome,
    /// Whether it was a lapsed claim.
    pub(super) lapsed: bool,
}

/// Acts on the next head; `None` when it is a lapsed claim and those are not wanted.
pub(super) async fn take_next(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
    lapsed_too: bool,
) -> Result<Option<Taken>, ClaimError> {
    let Some(head) = find(tx.connection(), request, Document::Read).await? else {
        return Ok(Some(Taken {
            outcome: ClaimOutcome::Nothing,
            lapsed: false,
        }));
    };
    let lapsed = head.lapsed;
    if lapsed && !lapsed_too {
        return Ok(None);
    }
    let outcome = act(tx, request, head).await?;
    Ok(Some(Taken { outcome, lapsed }))
}

fn unavailable(error: sqlx::Error) -> ClaimError {
    ClaimError::Unavailable(Box::new(error))
}

fn corrupt(column: &CorruptColumn) -> ClaimError {
    ClaimError::Corrupt {
        what: column.to_string(),
    }
}

/// The head to claim. One that cannot be read is the answer only when no other is left.
async fn find(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    document: Document,
) -> Result<Option<Head>, ClaimError> {
    let found = first_readable(connection, request, document)
        .await
        .map_err(|error| match error {
            EventError::Database(error) => unavailable(error),
            EventError::Corrupt(what) => ClaimError::Corrupt { what },
        })?;
    match (found.head, found.corrupt) {
        (None, Some(what)) => Err(ClaimError::Corrupt { what }),
        (head, _) => Ok(head),
    }
}

/// Acts on the head that is found under the write lock.
async fn take(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
) -> Result<ClaimOutcome, ClaimError> {
    let Some(head) = find(tx.connection(), request, Document::Read).await? else {
        return Ok(ClaimOutcome::Nothing);
    };
    act(tx, request, head).await
}

async fn act(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
    head: Head,
) -> Result<ClaimOutcome, ClaimError> {
    if head.lapsed {
        close_abandoned(tx, &head).await?;
    }
    match head.spent {
        Some(reason) => exhaust(tx, request, head, reason).await,
        None => claim(tx, request, head).await,
    }
}

async fn close_abandoned(tx: &mut SqliteWriteTransaction, head: &Head) -> Result<(), ClaimError> {
    let closed = sqlx::query(include_str!("../sql/close_abandoned_attempt.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .execute(tx.connection())
        .await
        .map_err(unavailable)?;
    match closed.rows_affected() {
        1 => Ok(()),
        count => Err(ClaimError::Corrupt {
            what: format!("a lapsed claim had one open attempt and {count} were closed"),
        }),
    }
}

async fn exhaust(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
    head: Head,
    reason: BudgetSpentReason,
) -> Result<ClaimOutcome, ClaimError> {
    let (class, stage) = reason.failure();
    let exhausted = sqlx::query(include_str!("../sql/exhaust_delivery.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .bind(head.row_version)
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .bind(class.as_str())
        .bind(stage.as_str())
        .execute(tx.connection())
        .await
        .map_err(unavailable)?;
    // The write lock is held, so only a clock that went back can make the fence fail.
    if exhausted.rows_affected() != 1 {
        return Ok(ClaimOutcome::Nothing);
    }
    Ok(ClaimOutcome::BudgetSpent {
        event_id: head.event_id().clone(),
        generation: head.generation,
        reason,
    })
}

async fn claim(
    tx: &mut SqliteWriteTransaction,
    request: &ClaimRequest,
    head: Head,
) -> Result<ClaimOutcome, ClaimError> {
    let claimed = sqlx::query(include_str!("../sql/claim_delivery.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .bind(head.row_version)
        .bind(request.token.as_bytes().as_slice())
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .fetch_optional(tx.connection())
        .await
        .map_err(unavailable)?;
    // The write lock is held, so only a clock that moved can make the fence fail.
    let Some(claimed) = claimed else {
        return Ok(ClaimOutcome::Nothing);
    };
    let lease = lease(&claimed).map_err(|column| corrupt(&column))?;
    let admitted = sqlx::query(include_str!("../sql/admit_attempt.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
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
    Ok(ClaimOutcome::Claimed(Box::new(ClaimedDelivery {
        attempt: AttemptIdentity {
            event_id: head.event_id().clone(),
            generation: head.generation,
            attempt_id: request.attempt_id.clone(),
            claim_token: request.token,
        },
        owner: request.owner.clone(),
        event: Arc::new(head.event),
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
