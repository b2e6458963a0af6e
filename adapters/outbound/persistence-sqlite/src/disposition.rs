//! What operators do to deliveries.
//!
//! Invariant: one transaction compares what the operator saw, moves exactly one row and audits it,
//! or changes nothing (requirement 004 §§18.6, 19.4–19.5).

use crate::control::{SqliteControl, Trouble, commit};
use crate::encoding::micros;
use crate::row::{self, CorruptColumn};
use crate::writer::SqliteWriteTransaction;
use application_core::disposition::{CurrentDelivery, DispositionDecision, decide};
use application_core::ports::{
    Disposed, Disposition, DispositionCommand, DispositionConflict, DispositionError,
    DispositionOutcome, OutboxDispositionPort,
};
use domain_core::delivery::{
    Claim, DeliveryState, DeliveryStateName, DispatchAuthority, PublicationWindow,
};
use domain_core::identity::{ClaimToken, DeliveryGeneration, EventId, RowVersion};
use domain_core::instant::DatabaseInstant;
use sqlx::sqlite::SqliteRow;

/// A statement changed another number of rows than it must.
#[derive(Debug, thiserror::Error)]
#[error("a disposition changed {0} rows")]
struct Changed(u64);

fn failed(trouble: Trouble) -> DispositionError {
    match trouble {
        Trouble::Unavailable(cause) => DispositionError::Unavailable(cause),
        Trouble::Unknown(cause) => DispositionError::OutcomeUnknown(cause),
    }
}

#[async_trait::async_trait]
impl OutboxDispositionPort for SqliteControl {
    async fn apply(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, DispositionError> {
        self.apply_once(command).await.map_err(failed)
    }
}

impl SqliteControl {
    async fn apply_once(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, Trouble> {
        let mut tx = self.begin().await?;
        match attempt(&mut tx, command).await? {
            Ok(disposed) => {
                commit(tx).await?;
                Ok(DispositionOutcome::Applied(disposed))
            }
            Err(conflict) => {
                tx.rollback().await;
                Ok(DispositionOutcome::Conflict(conflict))
            }
        }
    }
}

async fn attempt(
    tx: &mut SqliteWriteTransaction,
    command: &DispositionCommand,
) -> Result<Result<Disposed, DispositionConflict>, Trouble> {
    let row = sqlx::query(include_str!("sql/select_current.sql"))
        .bind(command.event_id.as_str())
        .fetch_optional(tx.connection())
        .await?;
    let Some(row) = row else {
        return Ok(Err(DispositionConflict::NoDelivery));
    };
    let found = current(&row)?;
    let polling: bool = row::value(&row, "polling")?;
    match decide(&found, command, polling) {
        Err(conflict) => Ok(Err(conflict)),
        Ok(DispositionDecision::Move { to, lapsed }) => {
            if let Disposition::Compensate {
                compensating_event, ..
            } = &command.disposition
                && !exists(tx, compensating_event).await?
            {
                return Ok(Err(DispositionConflict::NoCompensation));
            }
            move_to(tx, command, to, lapsed.is_some()).await.map(Ok)
        }
        Ok(DispositionDecision::Requeue(window)) => requeue(tx, command, window).await.map(Ok),
    }
}

fn current(row: &SqliteRow) -> Result<CurrentDelivery, CorruptColumn> {
    let instant = |column| -> Result<DatabaseInstant, CorruptColumn> {
        Ok(DatabaseInstant::from_epoch_micros(row::value(row, column)?))
    };
    let state = match row::name(row, "state", DeliveryStateName::from_name)? {
        DeliveryStateName::Ready => DeliveryState::Ready,
        DeliveryStateName::Claimed => {
            let token: Vec<u8> = row::value(row, "claim_token")?;
            DeliveryState::Claimed(Claim {
                token: ClaimToken::from_random(
                    token
                        .try_into()
                        .map_err(|_| CorruptColumn::new("claim_token", "16 bytes"))?,
                ),
                owner: row::parsed(row, "claim_owner")?,
                until: instant("claim_until")?,
            })
        }
        DeliveryStateName::RetryWait => DeliveryState::RetryWait {
            due: instant("next_attempt_at")?,
        },
        DeliveryStateName::DeliveryRecorded => DeliveryState::DeliveryRecorded,
        DeliveryStateName::Exhausted => DeliveryState::Exhausted,
        DeliveryStateName::Hold => DeliveryState::Hold,
        DeliveryStateName::Skipped => DeliveryState::Skipped,
        DeliveryStateName::Compensated => DeliveryState::Compensated,
        DeliveryStateName::LegacyRecordedUnverified => DeliveryState::LegacyRecordedUnverified,
        DeliveryStateName::LegacyAcceptedUnverified => DeliveryState::LegacyAcceptedUnverified,
    };
    Ok(CurrentDelivery {
        generation: row::number(row, "delivery_generation", DeliveryGeneration::new)?,
        row_version: row::number(row, "row_version", RowVersion::new)?,
        state,
        authority: row::name(row, "dispatch_authority", DispatchAuthority::from_name)?,
        event_created_at: instant("event_created_at")?,
        now: instant("now")?,
    })
}

async fn exists(tx: &mut SqliteWriteTransaction, event: &EventId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(include_str!("sql/select_event_exists.sql"))
        .bind(event.as_str())
        .fetch_one(tx.connection())
        .await
}

/// Moves the generation to another state.
async fn move_to(
    tx: &mut SqliteWriteTransaction,
    command: &DispositionCommand,
    to: DeliveryStateName,
    lapsed: bool,
) -> Result<Disposed, Trouble> {
    audit(tx, command, to, None).await?;
    if lapsed {
        // A claim without an attempt has lost its journal; an operator's HOLD is its only way out.
        sqlx::query(include_str!("sql/close_abandoned_attempt.sql"))
            .bind(command.event_id.as_str())
            .bind(command.generation.value())
            .execute(tx.connection())
            .await?;
    }
    let moved = sqlx::query(include_str!("sql/dispose.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(command.row_version.value())
        .bind(to.as_str())
        .bind(lapsed)
        .fetch_all(tx.connection())
        .await?;
    disposed(&moved, to)
}

/// Hands the authority over to the next generation.
async fn requeue(
    tx: &mut SqliteWriteTransaction,
    command: &DispositionCommand,
    window: PublicationWindow,
) -> Result<Disposed, Trouble> {
    let next = command.generation.value() + 1;
    audit(tx, command, DeliveryStateName::Ready, Some(next)).await?;
    let superseded = sqlx::query(include_str!("sql/supersede.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(command.row_version.value())
        .execute(tx.connection())
        .await?;
    if superseded.rows_affected() != 1 {
        return Err(Trouble::Unavailable(Box::new(Changed(
            superseded.rows_affected(),
        ))));
    }
    let opened = sqlx::query(include_str!("sql/open_generation.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(micros(window.maximum_age()))
        .bind(micros(window.requeue_horizon()))
        .fetch_all(tx.connection())
        .await?;
    disposed(&opened, DeliveryStateName::Ready)
}

fn disposed(rows: &[SqliteRow], state: DeliveryStateName) -> Result<Disposed, Trouble> {
    let [row] = rows else {
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        return Err(Trouble::Unavailable(Box::new(Changed(count))));
    };
    Ok(Disposed {
        generation: row::number(row, "delivery_generation", DeliveryGeneration::new)?,
        state,
        row_version: row::number(row, "row_version", RowVersion::new)?,
    })
}

async fn audit(
    tx: &mut SqliteWriteTransaction,
    command: &DispositionCommand,
    to: DeliveryStateName,
    next: Option<i64>,
) -> Result<(), Trouble> {
    let compensating = match &command.disposition {
        Disposition::Compensate {
            compensating_event, ..
        } => Some(compensating_event.as_str()),
        _ => None,
    };
    let act = &command.act;
    let written = sqlx::query(include_str!("sql/insert_disposition_audit.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(next)
        .bind(command.row_version.value())
        .bind(command.disposition.as_str())
        .bind(to.as_str())
        .bind(act.operator.as_str())
        .bind(act.reason_code.as_str())
        .bind(act.reason.as_str())
        .bind(act.reference.as_str())
        .bind(command.disposition.approval().map(|one| one.as_str()))
        .bind(compensating)
        .execute(tx.connection())
        .await?;
    match written.rows_affected() {
        1 => Ok(()),
        count => Err(Trouble::Unavailable(Box::new(Changed(count)))),
    }
}
