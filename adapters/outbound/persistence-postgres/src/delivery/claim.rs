//! Tx B: one head is claimed and its attempt journalled, or its spent budget ends it.
//!
//! Invariant: heads are found without a lock; one row is then locked by key, skipping what another
//! transaction holds, and only the locked row, judged by the clock after the lock, is changed. A
//! locked head is skipped with its whole scope.

use super::PostgresDeliveries;
use super::judge::{Judgement, LockedHead, judge};
use crate::errors::{Abort, DatabaseFault};
use crate::rows::{ReadError, StoredRow};
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::event::StoredOutboxEvent;
use application_core::ports::{
    AttemptIdentity, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    KnownRecord,
};
use domain_core::delivery::{Claim, DeliveryState, DeliveryStateName};
use domain_core::identity::{ClaimToken, DeliveryGeneration, WorkerId};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{FailureClass, FailureStage};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _, Transaction};
use std::sync::Arc;

/// Eligible heads that one scan looks for. Whoever finds all of them taken scans on from there.
const HEADS: i64 = 16;

/// The stage that an abandoned attempt is closed under: its lease, the attempt's last deadline,
/// passed.
const ABANDONED_AT: FailureStage = FailureStage::Deadline;

type ClaimAbort = Abort<ClaimError>;

fn unavailable(fault: DatabaseFault) -> ClaimError {
    ClaimError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> ClaimError {
    ClaimError::OutcomeUnknown(Box::new(fault))
}

fn failed(error: sqlx::Error) -> ClaimAbort {
    Abort::of(error, unavailable)
}

/// A head as it was found.
struct Head {
    event_id: String,
    generation: i64,
    row_version: i64,
    created_at: i64,
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
            .begin(Access::RELAY)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let known = Known::of(&request.known);
        let mut corrupt = None;
        let mut after = (0, String::new());
        loop {
            let heads = find_heads(&mut tx, &after, &known).await.map_err(failed)?;
            for head in &heads {
                match take(&mut tx, head, request).await? {
                    Ok(outcome) => {
                        commit(tx).await?;
                        return Ok(outcome);
                    }
                    Err(Passed::Over) => {}
                    Err(Passed::Corrupt(what)) => corrupt = corrupt.or(Some(what)),
                }
            }
            match heads.into_iter().next_back() {
                Some(last) => after = (last.created_at, last.event_id),
                None => break,
            }
        }
        session::roll_back(tx).await;
        match corrupt {
            Some(what) => Err(Abort::Failed(ClaimError::Corrupt { what })),
            None => Ok(ClaimOutcome::Nothing),
        }
    }
}

async fn commit(tx: Transaction<'static, Postgres>) -> Result<(), ClaimAbort> {
    session::commit(tx)
        .await
        .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))
}

/// What this process can send, by column.
struct Known<'r> {
    contracts: Vec<&'r str>,
    versions: Vec<i32>,
    schemas: Vec<&'r [u8]>,
    destinations: Vec<&'r str>,
    bindings: Vec<&'r str>,
}

impl<'r> Known<'r> {
    fn of(records: &'r [KnownRecord]) -> Self {
        let version =
            |record: &KnownRecord| i32::try_from(record.contract.payload_version.value()).ok();
        Self {
            contracts: records
                .iter()
                .map(|record| record.contract.contract_id.as_str())
                .collect(),
            // A payload version fits a signed 32-bit column by its own rule.
            versions: records.iter().filter_map(version).collect(),
            schemas: records
                .iter()
                .map(|record| &record.payload_schema.as_bytes()[..])
                .collect(),
            destinations: records
                .iter()
                .map(|record| record.destination.as_str())
                .collect(),
            bindings: records
                .iter()
                .map(|record| record.binding_revision.as_str())
                .collect(),
        }
    }
}

async fn find_heads(
    connection: &mut PgConnection,
    after: &(i64, String),
    known: &Known<'_>,
) -> Result<Vec<Head>, sqlx::Error> {
    let rows = sqlx::query(include_str!("../sql/find_heads.sql"))
        .bind(after.0)
        .bind(&after.1)
        .bind(&known.contracts)
        .bind(&known.versions)
        .bind(&known.schemas)
        .bind(&known.destinations)
        .bind(&known.bindings)
        .bind(HEADS)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Head {
                event_id: row.try_get("event_id")?,
                generation: row.try_get("delivery_generation")?,
                row_version: row.try_get("row_version")?,
                created_at: row.try_get("created_at")?,
            })
        })
        .collect()
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
    let read = match read(tx, head, &locked).await {
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
            spend(tx, head, request, reason, lapsed.is_some()).await?;
            Ok(Ok(ClaimOutcome::BudgetSpent {
                event_id: read.event.identities.event_id,
                generation: read.generation,
                reason,
            }))
        }
    }
}

/// A locked head with its event.
struct ReadHead {
    locked: LockedHead,
    generation: DeliveryGeneration,
    event: StoredOutboxEvent,
}

async fn read(tx: &mut PgConnection, head: &Head, locked: &PgRow) -> Result<ReadHead, ReadError> {
    let event = read_event(tx, &head.event_id).await?;
    let corrupt =
        |column: &str| ReadError::Corrupt(format!("column {column} of event {}", head.event_id));
    let generation =
        DeliveryGeneration::new(head.generation).map_err(|_| corrupt("delivery_generation"))?;
    let instant = |column: &str| -> Result<DatabaseInstant, ReadError> {
        Ok(DatabaseInstant::from_epoch_micros(locked.try_get(column)?))
    };
    let state = match DeliveryStateName::from_name(locked.try_get("state")?) {
        Some(DeliveryStateName::Ready) => DeliveryState::Ready,
        Some(DeliveryStateName::RetryWait) => DeliveryState::RetryWait {
            due: instant("next_attempt_at")?,
        },
        Some(DeliveryStateName::Claimed) => {
            let token: Vec<u8> = locked.try_get("claim_token")?;
            let owner: String = locked.try_get("claim_owner")?;
            DeliveryState::Claimed(Claim {
                token: ClaimToken::from_random(
                    token.try_into().map_err(|_| corrupt("claim_token"))?,
                ),
                owner: WorkerId::parse(owner).map_err(|_| corrupt("claim_owner"))?,
                until: instant("claim_until")?,
            })
        }
        _ => return Err(corrupt("state")),
    };
    let attempt_count: i32 = locked.try_get("publication_attempt_count")?;
    Ok(ReadHead {
        locked: LockedHead {
            state,
            attempt_count: u32::try_from(attempt_count)
                .map_err(|_| corrupt("publication_attempt_count"))?,
            deadline: instant("automatic_attempt_deadline")?,
            now: instant("now")?,
        },
        generation,
        event,
    })
}

/// The event of a delivery; the foreign key says that it is there.
pub(super) async fn read_event(
    connection: &mut PgConnection,
    event_id: &str,
) -> Result<StoredOutboxEvent, ReadError> {
    let row = sqlx::query(include_str!("../sql/read_event.sql"))
        .bind(event_id)
        .fetch_one(connection)
        .await?;
    StoredRow::new(&row)?.event()
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
        0 => Ok(Err(Passed::Corrupt(format!(
            "the claim on event {} has no attempt in the journal",
            head.event_id
        )))),
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
    lapsed: bool,
) -> Result<(), ClaimAbort> {
    // An abandoned attempt says more than the deadline that came after it.
    let failure = match (reason, lapsed) {
        (_, true) => Some((FailureClass::AttemptAbandoned, ABANDONED_AT)),
        (BudgetSpentReason::Deadline, false) => {
            Some((FailureClass::DeadlineExceeded, FailureStage::Deadline))
        }
        (BudgetSpentReason::Attempts, false) => None,
    };
    let spent = sqlx::query(include_str!("../sql/spend_budget.sql"))
        .bind(&head.event_id)
        .bind(head.generation)
        .bind(head.row_version)
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .bind(failure.map(|(class, _)| class.as_str()))
        .bind(failure.map(|(_, stage)| stage.as_str()))
        .execute(tx)
        .await
        .map_err(failed)?;
    if spent.rows_affected() == 1 {
        Ok(())
    } else {
        Err(Abort::Again(DatabaseFault::Moved))
    }
}
