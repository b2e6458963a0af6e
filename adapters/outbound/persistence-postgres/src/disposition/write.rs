//! Writes what was decided.
//!
//! Invariant: every statement names the generation, row version and state that were decided upon,
//! and changes exactly one delivery with exactly one audit row.

use super::{DispositionAbort, failed, unavailable};
use crate::errors::{Abort, DatabaseFault};
use crate::settings::micros;
use application_core::ports::{Disposed, Disposition, DispositionCommand, DispositionConflict};
use domain_core::delivery::{DeliveryStateName, PublicationWindow};
use domain_core::identity::{ClaimToken, DeliveryGeneration, EventId, RowVersion};
use domain_core::publication::FailureStage;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

/// The stage that an abandoned attempt is closed under: its lease, the attempt's last deadline,
/// passed.
const ABANDONED_AT: FailureStage = FailureStage::Deadline;

/// Moves the generation to another state.
pub(super) async fn move_to(
    tx: &mut PgConnection,
    command: &DispositionCommand,
    from: DeliveryStateName,
    to: DeliveryStateName,
    lapsed: Option<&ClaimToken>,
) -> Result<Result<Disposed, DispositionConflict>, DispositionAbort> {
    let compensating = match &command.disposition {
        Disposition::Compensate {
            compensating_event, ..
        } => Some(compensating_event),
        _ => None,
    };
    if let Some(event) = compensating
        && !exists(tx, event).await.map_err(failed)?
    {
        return Ok(Err(DispositionConflict::NoCompensation));
    }
    if let Some(token) = lapsed {
        abandon(tx, command, token).await?;
    }
    let act = &command.act;
    let moved = sqlx::query(include_str!("../sql/dispose.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(command.row_version.value())
        .bind(from.as_str())
        .bind(to.as_str())
        .bind(lapsed.is_some())
        .bind(ABANDONED_AT.as_str())
        .bind(command.disposition.as_str())
        .bind(act.operator.as_str())
        .bind(act.reason_code.as_str())
        .bind(act.reason.as_str())
        .bind(act.reference.as_str())
        .bind(command.disposition.approval().map(|one| one.as_str()))
        .bind(compensating.map(EventId::as_str))
        .fetch_optional(tx)
        .await;
    match moved {
        Ok(row) => disposed(row, to).map(Ok),
        Err(error) => {
            let fault = DatabaseFault::from(error);
            if refers_to_nothing(&fault) {
                // Removed since it was looked for.
                Ok(Err(DispositionConflict::NoCompensation))
            } else {
                Err(Abort::of(fault, unavailable))
            }
        }
    }
}

/// Hands the authority over to the next generation.
pub(super) async fn requeue(
    tx: &mut PgConnection,
    command: &DispositionCommand,
    from: DeliveryStateName,
    window: PublicationWindow,
) -> Result<Disposed, DispositionAbort> {
    let act = &command.act;
    let opened = sqlx::query(include_str!("../sql/requeue.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(command.row_version.value())
        .bind(from.as_str())
        .bind(micros(window.maximum_age()))
        .bind(micros(window.requeue_horizon()))
        .bind(act.operator.as_str())
        .bind(act.reason_code.as_str())
        .bind(act.reason.as_str())
        .bind(act.reference.as_str())
        .fetch_optional(tx)
        .await
        .map_err(failed)?;
    disposed(opened, DeliveryStateName::Ready)
}

/// The row is locked and was judged, so only time can have moved it out of the guard.
fn disposed(row: Option<PgRow>, state: DeliveryStateName) -> Result<Disposed, DispositionAbort> {
    let row = row.ok_or(Abort::Again(DatabaseFault::Moved))?;
    let number = |column: &str| row.try_get::<i64, _>(column).map_err(failed);
    let broken = |_| Abort::Failed(unavailable(DatabaseFault::RowCount));
    Ok(Disposed {
        generation: DeliveryGeneration::new(number("delivery_generation")?).map_err(broken)?,
        state,
        row_version: RowVersion::new(number("row_version")?).map_err(broken)?,
    })
}

async fn exists(tx: &mut PgConnection, event: &EventId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(include_str!("../sql/event_exists.sql"))
        .bind(event.as_str())
        .fetch_one(tx)
        .await
}

/// Closes the attempt of a lapsed claim. A claim without an attempt has lost its journal: no worker
/// can ever take it again, so an operator's HOLD is its only way out and is not refused.
async fn abandon(
    tx: &mut PgConnection,
    command: &DispositionCommand,
    token: &ClaimToken,
) -> Result<(), DispositionAbort> {
    let closed = sqlx::query(include_str!("../sql/abandon_attempt.sql"))
        .bind(command.event_id.as_str())
        .bind(command.generation.value())
        .bind(&token.as_bytes()[..])
        .bind(ABANDONED_AT.as_str())
        .execute(tx)
        .await
        .map_err(failed)?;
    if closed.rows_affected() <= 1 {
        Ok(())
    } else {
        Err(Abort::Failed(unavailable(DatabaseFault::RowCount)))
    }
}

fn refers_to_nothing(fault: &DatabaseFault) -> bool {
    matches!(
        fault,
        DatabaseFault::Answered { sqlstate, constraint: Some(constraint), .. }
            if sqlstate == "23503" && constraint == "outbox_disposition_compensation_fkey"
    )
}
