//! Tx B: one head is claimed and its attempt journalled, or its spent budget ends it.
//!
//! Invariant: heads are found without a lock; one row is then locked by key, skipping what another
//! transaction holds, and only the locked row, judged by the clock after the lock, is changed. A
//! locked head is skipped with its whole scope.

use super::PostgresDeliveries;
use super::heads::{Document, Head, ReadHead, read};
use super::judge::{Judgement, judge};
use super::scan::{FoundHead, Search};
use crate::errors::{Abort, DatabaseFault};
use crate::rows::ReadError;
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::ports::{
    AttemptIdentity, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    PartitionShare,
};
use domain_core::identity::ClaimToken;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::FailureStage;
use sqlx::{PgConnection, Postgres, Row as _, Transaction};
use std::sync::Arc;

/// The stage that an abandoned attempt is closed under: its lease, the attempt's last deadline,
/// passed.
const ABANDONED_AT: FailureStage = FailureStage::Deadline;

/// Eligible heads that one look asks for.
const HEADS: usize = 16;
/// Looks that one transaction takes while others hold what it finds.
const LOOKS: usize = 4;

pub(crate) type ClaimAbort = Abort<ClaimError>;

pub(crate) fn unavailable(fault: DatabaseFault) -> ClaimError {
    ClaimError::Unavailable(Box::new(fault))
}

pub(crate) fn unknown(fault: DatabaseFault) -> ClaimError {
    ClaimError::OutcomeUnknown(Box::new(fault))
}

fn failed(error: sqlx::Error) -> ClaimAbort {
    Abort::of(error, unavailable)
}

/// Why a found head was not taken.
enum Passed {
    /// Held by another transaction, changed since, or not due after all.
    Over,
    /// It cannot be read; others go first.
    Corrupt(String),
}

impl PostgresDeliveries {
    /// One turn of Tx B.
    pub(super) async fn claim_once(
        &self,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome, ClaimAbort> {
        let mut tx = self
            .sessions
            .begin(Access::Batch)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let search = Search {
            share: PartitionShare::WHOLE,
            known: &request.known,
            limit: HEADS,
            documents: false,
        };
        let mut corrupt = None;
        let mut finished = false;
        for _ in 0..LOOKS {
            let found = self
                .places
                .look(&mut tx, &search)
                .await
                .map_err(read_failed)?;
            for (place, head) in found.heads.iter().enumerate() {
                let taken = take_found(&mut tx, head, request)
                    .await
                    .inspect_err(|_| self.places.untried(&found))?;
                match taken {
                    Ok(outcome) => {
                        commit(tx)
                            .await
                            .inspect_err(|_| self.places.untried(&found))?;
                        self.places.tried(&found, place + 1);
                        self.places.taken(search.share);
                        return Ok(outcome);
                    }
                    Err(Passed::Over) => {}
                    Err(Passed::Corrupt(what)) => corrupt = corrupt.or(Some(what)),
                }
            }
            finished = found.finished;
            // Another look in this transaction is for what others hold, not for what is blocked.
            if finished || found.heads.is_empty() {
                break;
            }
        }
        session::roll_back(tx).await;
        match corrupt {
            _ if !finished => Ok(ClaimOutcome::Unfinished),
            Some(what) => Err(Abort::Failed(ClaimError::Corrupt { what })),
            None => Ok(ClaimOutcome::Nothing),
        }
    }
}

impl PostgresDeliveries {
    /// Tx B for one row that was found; `None` when it was not taken.
    pub(crate) async fn claim_found(
        &self,
        found: &FoundHead,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome>, ClaimAbort> {
        let mut tx = self
            .sessions
            .begin(Access::Batch)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        match take_found(&mut tx, found, request).await? {
            Ok(outcome) => {
                commit(tx).await?;
                Ok(Some(outcome))
            }
            Err(Passed::Over | Passed::Corrupt(_)) => {
                session::roll_back(tx).await;
                Ok(None)
            }
        }
    }
}

fn read_failed(error: ReadError) -> ClaimAbort {
    match error {
        ReadError::Database(fault) => Abort::of(fault, unavailable),
        ReadError::Corrupt(what) => Abort::Failed(ClaimError::Corrupt { what }),
    }
}

/// Takes a found row, unless its event cannot be read.
async fn take_found(
    tx: &mut PgConnection,
    found: &FoundHead,
    request: &ClaimRequest,
) -> Result<Result<ClaimOutcome, Passed>, ClaimAbort> {
    match &found.event {
        Ok(_) => take(tx, &found.head, request).await,
        Err(what) => Ok(Err(Passed::Corrupt(what.clone()))),
    }
}

async fn commit(tx: Transaction<'static, Postgres>) -> Result<(), ClaimAbort> {
    session::commit(tx)
        .await
        .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))
}

/// Locks, judges and changes one head.
async fn take(
    tx: &mut PgConnection,
    head: &Head,
    request: &ClaimRequest,
) -> Result<Result<ClaimOutcome, Passed>, ClaimAbort> {
    let locked = sqlx::query(include_str!("../sql/lock_head.sql"))
        .bind(&head.event_id)
        .bind(head.generation)
        .bind(head.row_version)
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed)?;
    let Some(locked) = locked else {
        return Ok(Err(Passed::Over));
    };
    let read = match read(tx, head, &locked, Document::Read).await {
        Ok(read) => read,
        Err(ReadError::Database(fault)) => return Err(Abort::of(fault, unavailable)),
        Err(ReadError::Corrupt(what)) => return Ok(Err(Passed::Corrupt(what))),
    };
    match judge(&read.locked, request) {
        Judgement::Leave => Ok(Err(Passed::Over)),
        Judgement::Claim { lapsed } => {
            if let Err(passed) = abandon(tx, head, lapsed.as_ref()).await? {
                return Ok(Err(passed));
            }
            let claimed = claim(tx, head, read, request, lapsed.is_some()).await?;
            Ok(Ok(ClaimOutcome::Claimed(Box::new(claimed))))
        }
        Judgement::Spend { reason, lapsed } => {
            if let Err(passed) = abandon(tx, head, lapsed.as_ref()).await? {
                return Ok(Err(passed));
            }
            spend(tx, head, request, reason).await?;
            Ok(Ok(ClaimOutcome::BudgetSpent {
                event_id: read.event.identities.event_id,
                generation: read.generation,
                reason,
            }))
        }
    }
}

/// Closes the attempt of a lapsed claim, if there is one.
async fn abandon(
    tx: &mut PgConnection,
    head: &Head,
    lapsed: Option<&ClaimToken>,
) -> Result<Result<(), Passed>, ClaimAbort> {
    let Some(token) = lapsed else {
        return Ok(Ok(()));
    };
    let closed = sqlx::query(include_str!("../sql/abandon_attempt.sql"))
        .bind(&head.event_id)
        .bind(head.generation)
        .bind(&token.as_bytes()[..])
        .bind(ABANDONED_AT.as_str())
        .execute(tx)
        .await
        .map_err(failed)?;
    match closed.rows_affected() {
        1 => Ok(Ok(())),
        0 => Ok(Err(Passed::Corrupt(head.without_attempt()))),
        _ => Err(Abort::Failed(unavailable(DatabaseFault::RowCount))),
    }
}

async fn claim(
    tx: &mut PgConnection,
    head: &Head,
    read: ReadHead,
    request: &ClaimRequest,
    lapsed: bool,
) -> Result<ClaimedDelivery, ClaimAbort> {
    let row = sqlx::query(include_str!("../sql/claim.sql"))
        .bind(&head.event_id)
        .bind(head.generation)
        .bind(head.row_version)
        .bind(&request.token.as_bytes()[..])
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .bind(request.attempt_id.as_str())
        .bind(request.producer_generation.as_str())
        .bind(&request.token.digest().as_bytes()[..])
        .bind(lapsed)
        .bind(ABANDONED_AT.as_str())
        .fetch_optional(tx)
        .await
        .map_err(failed)?
        // The row is locked, so only time can have moved it out of the guard.
        .ok_or(Abort::Again(DatabaseFault::Moved))?;
    let claimed = || -> Result<ClaimedDelivery, sqlx::Error> {
        let count = |column: &str| -> Result<u32, sqlx::Error> {
            let number: i32 = row.try_get(column)?;
            u32::try_from(number).map_err(|error| sqlx::Error::ColumnDecode {
                index: column.to_owned(),
                source: Box::new(error),
            })
        };
        Ok(ClaimedDelivery {
            attempt: AttemptIdentity {
                event_id: read.event.identities.event_id.clone(),
                generation: read.generation,
                attempt_id: request.attempt_id.clone(),
                claim_token: request.token,
            },
            owner: request.owner.clone(),
            claim_until: DatabaseInstant::from_epoch_micros(row.try_get("claim_until")?),
            claim_count: count("claim_count")?,
            attempt_count: count("publication_attempt_count")?,
            event: Arc::new(read.event),
        })
    };
    claimed().map_err(failed)
}

async fn spend(
    tx: &mut PgConnection,
    head: &Head,
    request: &ClaimRequest,
    reason: BudgetSpentReason,
) -> Result<(), ClaimAbort> {
    let (class, stage) = reason.failure();
    let spent = sqlx::query(include_str!("../sql/spend_budget.sql"))
        .bind(&head.event_id)
        .bind(head.generation)
        .bind(head.row_version)
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .bind(class.as_str())
        .bind(stage.as_str())
        .execute(tx)
        .await
        .map_err(failed)?;
    if spent.rows_affected() == 1 {
        Ok(())
    } else {
        Err(Abort::Again(DatabaseFault::Moved))
    }
}
