//! A live claim is extended under its own token.
//!
//! Invariant: nothing but the lease changes.

use crate::encoding::micros;
use crate::errors::CommitError;
use crate::writer::Writer;
use application_core::ports::{RecordError, RenewOutcome, RenewRequest};
use domain_core::instant::DatabaseInstant;

pub(super) async fn renew(
    writer: &Writer,
    request: &RenewRequest,
) -> Result<RenewOutcome, RecordError> {
    let unavailable = |error: sqlx::Error| RecordError::Unavailable(Box::new(error));
    let attempt = &request.attempt;
    let mut tx = writer.begin().await.map_err(unavailable)?;
    let until: Option<i64> = sqlx::query_scalar(include_str!("../sql/renew_claim.sql"))
        .bind(attempt.event_id.as_str())
        .bind(attempt.generation.value())
        .bind(attempt.claim_token.as_bytes().as_slice())
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(attempt.attempt_id.as_str())
        .bind(attempt.claim_token.digest().as_bytes().as_slice())
        .fetch_optional(tx.connection())
        .await
        .map_err(unavailable)?;
    let Some(until) = until else {
        tx.rollback().await;
        return Ok(RenewOutcome::Stale);
    };
    match tx.commit().await {
        Ok(()) => Ok(RenewOutcome::Renewed(DatabaseInstant::from_epoch_micros(
            until,
        ))),
        Err(CommitError::Unknown(error)) => Err(RecordError::OutcomeUnknown(Box::new(error))),
        Err(error) => Err(RecordError::Unavailable(Box::new(error))),
    }
}
