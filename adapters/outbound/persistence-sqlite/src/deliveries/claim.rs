//! Tx B: one head is claimed and its attempt journalled, or its spent budget ends it.
//!
//! Invariant: heads are found without the write lock; under it one row is judged whole again by
//! its key, so what was found is a hint and no more. Claim, attempt count, `ATTEMPT_ADMITTED` and
//! the closing of an abandoned attempt commit together or not at all.

use super::heads::{Candidate, Judgement, judge};
use super::scan::Search;
use super::{Document, EventError, SqliteDeliveries};
use crate::encoding::micros;
use crate::errors::CommitError;
use crate::row::{self, CorruptColumn};
use crate::writer::SqliteWriteTransaction;
use application_core::ports::{
    AttemptIdentity, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    PartitionShare,
};
use domain_core::instant::DatabaseInstant;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;

/// Looks that one call takes while others are faster than it.
const LOOKS: usize = 4;

/// What the claim's update returned.
struct Lease {
    until: DatabaseInstant,
    claim_count: u32,
    attempt_count: u32,
}

/// Why a row was not taken. Every change that was begun for it is to be rolled back.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("the database refused")]
    Database(#[source] sqlx::Error),
    #[error("a stored row cannot be read: {0}")]
    Corrupt(String),
}

impl From<sqlx::Error> for NotTaken {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<CorruptColumn> for NotTaken {
    fn from(column: CorruptColumn) -> Self {
        Self::Corrupt(column.to_string())
    }
}

impl From<EventError> for NotTaken {
    fn from(error: EventError) -> Self {
        match error {
            EventError::Database(error) => Self::Database(error),
            EventError::Corrupt(what) => Self::Corrupt(what),
        }
    }
}

impl From<NotTaken> for ClaimError {
    fn from(error: NotTaken) -> Self {
        match error {
            NotTaken::Database(error) => unavailable(error),
            NotTaken::Corrupt(what) => Self::Corrupt { what },
        }
    }
}

pub(super) fn unavailable(error: sqlx::Error) -> ClaimError {
    ClaimError::Unavailable(Box::new(error))
}

impl SqliteDeliveries {
    pub(super) async fn claim_one(
        &self,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome, ClaimError> {
        let search = Search {
            share: PartitionShare::WHOLE,
            known: &request.known,
            limit: 1,
            lapsed_alone: false,
            document: Document::Read,
        };
        for _ in 0..LOOKS {
            // Without the write lock: a relay without work never stands in a writer's way.
            let found = {
                let mut look = self.reads.acquire().await.map_err(unavailable)?;
                let found = self.places.look(&mut look, &search).await;
                found.map_err(NotTaken::from)?
            };
            let Some(head) = found.candidates.first() else {
                return match found.corrupt {
                    _ if !found.finished => Ok(ClaimOutcome::Unfinished),
                    Some(what) => Err(ClaimError::Corrupt { what }),
                    None => Ok(ClaimOutcome::Nothing),
                };
            };
            let taken = self.take_alone(request, head).await;
            let taken = taken.inspect_err(|_| self.places.untried(&found))?;
            if let Some(outcome) = taken {
                return Ok(outcome);
            }
        }
        Ok(ClaimOutcome::Unfinished)
    }

    /// Tx B for one row that was found; `None` when it was not taken.
    async fn take_alone(
        &self,
        request: &ClaimRequest,
        head: &Candidate,
    ) -> Result<Option<ClaimOutcome>, ClaimError> {
        let mut tx = self.writer.begin().await.map_err(unavailable)?;
        let taken = take(tx.connection(), request, head).await?;
        if taken.is_none() {
            tx.rollback().await;
            return Ok(None);
        }
        commit(tx).await?;
        Ok(taken)
    }
}

/// Commits a claim.
pub(super) async fn commit(tx: SqliteWriteTransaction) -> Result<(), ClaimError> {
    match tx.commit().await {
        Ok(()) => Ok(()),
        Err(CommitError::Unknown(error)) => Err(ClaimError::OutcomeUnknown(Box::new(error))),
        Err(error) => Err(ClaimError::Unavailable(Box::new(error))),
    }
}

/// Judges one head under the write lock and changes it; `None` when it may not be taken, and then
/// whatever was begun is to be rolled back: the clock moves between the judgement and the change.
pub(super) async fn take(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    head: &Candidate,
) -> Result<Option<ClaimOutcome>, NotTaken> {
    let Some(Judgement { lapsed, spent }) = judge(connection, head, request).await? else {
        return Ok(None);
    };
    if lapsed {
        close_abandoned(connection, head).await?;
    }
    match spent {
        Some(reason) => exhaust(connection, request, head, reason).await,
        None => claim(connection, request, head).await,
    }
}

/// A statement under the write lock found another number of rows than the one before it.
fn differs(what: &str, count: u64) -> NotTaken {
    NotTaken::Corrupt(format!("{what}: {count} rows instead of one"))
}

async fn close_abandoned(
    connection: &mut SqliteConnection,
    head: &Candidate,
) -> Result<(), NotTaken> {
    let closed = sqlx::query(include_str!("../sql/close_abandoned_attempt.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .execute(connection)
        .await?;
    match closed.rows_affected() {
        1 => Ok(()),
        count => Err(differs("the open attempt of a lapsed claim", count)),
    }
}

async fn exhaust(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    head: &Candidate,
    reason: BudgetSpentReason,
) -> Result<Option<ClaimOutcome>, NotTaken> {
    let (class, stage) = reason.failure();
    let exhausted = sqlx::query(include_str!("../sql/exhaust_delivery.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .bind(head.row_version)
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .bind(class.as_str())
        .bind(stage.as_str())
        .execute(connection)
        .await?;
    Ok(
        (exhausted.rows_affected() == 1).then(|| ClaimOutcome::BudgetSpent {
            event_id: head.event_id().clone(),
            generation: head.generation,
            reason,
        }),
    )
}

async fn claim(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    head: &Candidate,
) -> Result<Option<ClaimOutcome>, NotTaken> {
    let claimed = sqlx::query(include_str!("../sql/claim_delivery.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .bind(head.row_version)
        .bind(request.token.as_bytes().as_slice())
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .fetch_optional(&mut *connection)
        .await?;
    let Some(claimed) = claimed else {
        return Ok(None);
    };
    let lease = lease(&claimed)?;
    let admitted = sqlx::query(include_str!("../sql/admit_attempt.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .bind(request.attempt_id.as_str())
        .bind(request.token.digest().as_bytes().as_slice())
        .bind(request.producer_generation.as_str())
        .execute(connection)
        .await?;
    if admitted.rows_affected() != 1 {
        return Err(differs("a claimed delivery", admitted.rows_affected()));
    }
    Ok(Some(ClaimOutcome::Claimed(Box::new(ClaimedDelivery {
        attempt: AttemptIdentity {
            event_id: head.event_id().clone(),
            generation: head.generation,
            attempt_id: request.attempt_id.clone(),
            claim_token: request.token,
        },
        owner: request.owner.clone(),
        event: Arc::clone(&head.event),
        claim_until: lease.until,
        claim_count: lease.claim_count,
        attempt_count: lease.attempt_count,
    }))))
}

fn lease(claimed: &SqliteRow) -> Result<Lease, CorruptColumn> {
    Ok(Lease {
        until: DatabaseInstant::from_epoch_micros(row::value(claimed, "claim_until")?),
        claim_count: row::number(claimed, "claim_count", u32::try_from)?,
        attempt_count: row::number(claimed, "publication_attempt_count", u32::try_from)?,
    })
}
