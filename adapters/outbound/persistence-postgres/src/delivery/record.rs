//! Tx C: the attempt's outcome is journalled and the delivery moves, or neither.
//!
//! Invariant: the row is locked before its lease is compared; the compare-and-set names every
//! column of requirement 004 §18.6 and must change exactly one row.

use super::PostgresDeliveries;
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::ports::{OutcomeRecord, RecordError, RecordOutcome};

type RecordAbort = Abort<RecordError>;

fn unavailable(fault: DatabaseFault) -> RecordError {
    RecordError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> RecordError {
    RecordError::OutcomeUnknown(Box::new(fault))
}

fn failed(error: sqlx::Error) -> RecordAbort {
    Abort::of(error, unavailable)
}

impl PostgresDeliveries {
    /// One turn of Tx C.
    pub(super) async fn record_once(
        &self,
        record: &OutcomeRecord,
    ) -> Result<RecordOutcome, RecordAbort> {
        let mut tx = self
            .sessions
            .begin(Access::RELAY)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let attempt = &record.attempt;
        let locked = sqlx::query(include_str!("../sql/lock_delivery.sql"))
            .bind(attempt.event_id.as_str())
            .bind(attempt.generation.value())
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed)?;
        if locked.is_none() {
            session::roll_back(tx).await;
            return Ok(RecordOutcome::Stale);
        }
        let state = record.decision.state();
        let outcome = &record.outcome;
        let failure = outcome.failure();
        let receipt = outcome.receipt();
        let recorded: i64 = sqlx::query_scalar(include_str!("../sql/record_outcome.sql"))
            .bind(attempt.event_id.as_str())
            .bind(attempt.generation.value())
            .bind(&attempt.claim_token.as_bytes()[..])
            .bind(record.owner.as_str())
            .bind(state.as_str())
            .bind(micros(record.decision.delay()))
            .bind(outcome.certainty().as_str())
            .bind(outcome.disposition().as_str())
            .bind(failure.map(|failure| failure.class.as_str()))
            .bind(failure.map(|failure| failure.stage.as_str()))
            .bind(record.producer_generation.as_str())
            .bind(receipt.map(|receipt| receipt.record_reference.as_str()))
            .bind(receipt.map(|receipt| receipt.acknowledged_at.epoch_micros()))
            .bind(attempt.attempt_id.as_str())
            .bind(&attempt.claim_token.digest().as_bytes()[..])
            .bind(record.binding_revision.as_str())
            .fetch_one(&mut *tx)
            .await
            .map_err(failed)?;
        match recorded {
            1 => {
                session::commit(tx)
                    .await
                    .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
                Ok(RecordOutcome::Recorded(state))
            }
            0 => {
                session::roll_back(tx).await;
                Ok(RecordOutcome::Stale)
            }
            _ => Err(Abort::Failed(unavailable(DatabaseFault::RowCount))),
        }
    }
}
