//! What operators do to deliveries.
//!
//! Invariant: each command is one READ COMMITTED transaction that locks the row, compares what the
//! operator saw, moves exactly one row and audits it, or changes nothing (requirement 004 §§18.6,
//! 19.4–19.5). Lock order: epoch, then the delivery.

mod write;

use crate::errors::{Abort, DatabaseFault};
use crate::rows::{ReadError, StoredRow};
use crate::session::{self, Access, Sessions};
use application_core::disposition::{
    CurrentDelivery as Current, DispositionDecision as Decision, decide,
};
use application_core::ports::{
    Disposed, Disposition, DispositionCommand, DispositionConflict, DispositionError,
    DispositionOutcome, OutboxDispositionPort,
};
use domain_core::delivery::{Claim, DeliveryState, DeliveryStateName, DispatchAuthority};
use domain_core::identity::{ClaimToken, DeliveryGeneration, EventId, RowVersion, WorkerId};
use sqlx::PgConnection;
use std::sync::Arc;

/// The operators' side of one store.
#[derive(Clone)]
pub struct PostgresDispositions {
    pub(crate) sessions: Arc<Sessions>,
}

type DispositionAbort = Abort<DispositionError>;

fn unavailable(fault: DatabaseFault) -> DispositionError {
    DispositionError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> DispositionError {
    DispositionError::OutcomeUnknown(Box::new(fault))
}

fn failed(error: sqlx::Error) -> DispositionAbort {
    Abort::of(error, unavailable)
}

fn unread(error: ReadError) -> DispositionAbort {
    match error {
        ReadError::Database(fault) => Abort::of(fault, unavailable),
        ReadError::Corrupt(what) => Abort::Failed(DispositionError::Unavailable(what.into())),
    }
}

#[async_trait::async_trait]
impl OutboxDispositionPort for PostgresDispositions {
    async fn apply(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, DispositionError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.apply_once(command).await {
                Ok(outcome) => return Ok(outcome),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(unavailable(fault)),
            }
        }
    }
}

impl PostgresDispositions {
    /// One turn.
    async fn apply_once(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, DispositionAbort> {
        let mut tx = self
            .sessions
            .begin(Access::RELAY)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        match attempt(&mut tx, command).await? {
            Ok(disposed) => {
                session::commit(tx)
                    .await
                    .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
                Ok(DispositionOutcome::Applied(disposed))
            }
            Err(conflict) => {
                session::roll_back(tx).await;
                Ok(DispositionOutcome::Conflict(conflict))
            }
        }
    }
}

/// Everything but the end of the transaction.
async fn attempt(
    tx: &mut PgConnection,
    command: &DispositionCommand,
) -> Result<Result<Disposed, DispositionConflict>, DispositionAbort> {
    let polling = match command.disposition {
        Disposition::Requeue { .. } => share_polling_epoch(tx).await.map_err(failed)?,
        _ => false,
    };
    sqlx::query(include_str!("../sql/lock_generation.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    let Some(current) = read_current(tx, &command.event_id).await.map_err(unread)? else {
        return Ok(Err(DispositionConflict::NoDelivery));
    };
    let decision = match decide(&current, command, polling) {
        Ok(decision) => decision,
        Err(conflict) => return Ok(Err(conflict)),
    };
    let from = current.state.name();
    match decision {
        Decision::Requeue(window) => write::requeue(tx, command, from, window).await.map(Ok),
        Decision::Move { to, lapsed } => {
            write::move_to(tx, command, from, to, lapsed.as_ref()).await
        }
    }
}

/// Whether a polling epoch is ACTIVE, and then held so. A look that waited for an activation sees
/// the retired row alone; the second look sees what was activated in its place.
async fn share_polling_epoch(tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
    for _ in 0..2 {
        let epoch: Option<i64> = sqlx::query_scalar(include_str!("../sql/share_polling_epoch.sql"))
            .fetch_optional(&mut *tx)
            .await?;
        if epoch.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn read_current(
    tx: &mut PgConnection,
    event_id: &EventId,
) -> Result<Option<Current>, ReadError> {
    let row = sqlx::query(include_str!("../sql/read_current.sql"))
        .bind(event_id.as_str())
        .fetch_optional(tx)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let row = StoredRow::new(&row)?;
    let state = match row.name("state", DeliveryStateName::from_name)? {
        DeliveryStateName::Ready => DeliveryState::Ready,
        DeliveryStateName::Claimed => {
            let token: Vec<u8> = row.get("claim_token")?;
            DeliveryState::Claimed(Claim {
                token: ClaimToken::from_random(token.try_into().map_err(|_| {
                    ReadError::corrupt(format!("column claim_token of event {event_id}"))
                })?),
                owner: row.text("claim_owner", WorkerId::parse)?,
                until: row.instant("claim_until")?,
            })
        }
        DeliveryStateName::RetryWait => DeliveryState::RetryWait {
            due: row.instant("next_attempt_at")?,
        },
        DeliveryStateName::DeliveryRecorded => DeliveryState::DeliveryRecorded,
        DeliveryStateName::Exhausted => DeliveryState::Exhausted,
        DeliveryStateName::Hold => DeliveryState::Hold,
        DeliveryStateName::Skipped => DeliveryState::Skipped,
        DeliveryStateName::Compensated => DeliveryState::Compensated,
        DeliveryStateName::LegacyRecordedUnverified => DeliveryState::LegacyRecordedUnverified,
        DeliveryStateName::LegacyAcceptedUnverified => DeliveryState::LegacyAcceptedUnverified,
    };
    Ok(Some(Current {
        generation: row.number("delivery_generation", DeliveryGeneration::new)?,
        row_version: row.number("row_version", RowVersion::new)?,
        state,
        authority: row.name("dispatch_authority", DispatchAuthority::from_name)?,
        event_created_at: row.instant("event_created_at")?,
        now: row.instant("now")?,
    }))
}
