//! A live claim is extended under its own token.
//!
//! Invariant: the row is locked before its lease is compared, and nothing but the lease changes.

use super::PostgresDeliveries;
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::ports::{RecordError, RenewOutcome, RenewRequest};
use domain_core::instant::DatabaseInstant;

fn unavailable(fault: DatabaseFault) -> RecordError {
    RecordError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> RecordError {
    RecordError::OutcomeUnknown(Box::new(fault))
}

impl PostgresDeliveries {
    /// One turn of a renewal.
    pub(super) async fn renew_once(
        &self,
        request: &RenewRequest,
    ) -> Result<RenewOutcome, Abort<RecordError>> {
        let failed = |error: sqlx::Error| Abort::of(error, unavailable);
        let mut tx = self
            .sessions
            .begin(Access::RELAY)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let attempt = &request.attempt;
        sqlx::query(include_str!("../sql/lock_delivery.sql"))
            .bind(attempt.event_id.as_str())
            .bind(attempt.generation.value())
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed)?;
        let until: Option<i64> = sqlx::query_scalar(include_str!("../sql/renew_claim.sql"))
            .bind(attempt.event_id.as_str())
            .bind(attempt.generation.value())
            .bind(&attempt.claim_token.as_bytes()[..])
            .bind(request.owner.as_str())
            .bind(micros(request.lease))
            .bind(attempt.attempt_id.as_str())
            .bind(&attempt.claim_token.digest().as_bytes()[..])
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed)?;
        let Some(until) = until else {
            session::roll_back(tx).await;
            return Ok(RenewOutcome::Stale);
        };
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(RenewOutcome::Renewed(DatabaseInstant::from_epoch_micros(
            until,
        )))
    }
}
