//! Late acknowledgements, in a transaction of their own.
//!
//! Invariant: the deliveries are locked before the journal is read, and nothing of a delivery is
//! changed; an observation that is there already, or whose delivery is not, spoils no other.

use super::PostgresDeliveries;
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use application_core::ports::{LatePublicationObservation, LateWriteError, LateWriteReport};
use sqlx::Row as _;
use std::collections::BTreeSet;

type LateAbort = Abort<LateWriteError>;

fn unavailable(fault: DatabaseFault) -> LateWriteError {
    LateWriteError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> LateWriteError {
    LateWriteError::OutcomeUnknown(Box::new(fault))
}

fn failed(error: sqlx::Error) -> LateAbort {
    Abort::of(error, unavailable)
}

impl PostgresDeliveries {
    /// One turn of the batch.
    pub(super) async fn write_late(
        &self,
        observations: &[LatePublicationObservation],
    ) -> Result<LateWriteReport, LateAbort> {
        let mut tx = self
            .sessions
            .begin(Access::RELAY)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let present = sqlx::query(include_str!("../sql/lock_deliveries.sql"))
            .bind(column(observations, |one| one.attempt.event_id.as_str()))
            .bind(column(observations, |one| one.attempt.generation.value()))
            .fetch_all(&mut *tx)
            .await
            .map_err(failed)?;
        let present: BTreeSet<(String, i64)> = present
            .iter()
            .map(|row| {
                Ok((
                    row.try_get("event_id")?,
                    row.try_get("delivery_generation")?,
                ))
            })
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let kept: Vec<_> = observations
            .iter()
            .filter(|one| {
                present.contains(&(
                    one.attempt.event_id.as_str().to_owned(),
                    one.attempt.generation.value(),
                ))
            })
            .cloned()
            .collect();
        let digests: Vec<Vec<u8>> = column(&kept, |one| {
            one.attempt.claim_token.digest().as_bytes().to_vec()
        });
        let written = sqlx::query(include_str!("../sql/late_observations.sql"))
            .bind(column(&kept, |one| one.attempt.event_id.as_str()))
            .bind(column(&kept, |one| one.attempt.generation.value()))
            .bind(column(&kept, |one| one.attempt.attempt_id.as_str()))
            .bind(digests)
            .bind(column(&kept, |one| one.producer_generation.as_str()))
            .bind(column(&kept, |one| one.binding_revision.as_str()))
            .bind(column(&kept, |one| one.observed_at.epoch_micros()))
            .bind(column(&kept, |one| one.record_reference.as_str()))
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        let appended = usize::try_from(written.rows_affected()).unwrap_or(kept.len());
        Ok(LateWriteReport {
            appended,
            duplicates: kept.len().saturating_sub(appended),
            orphaned: observations.len() - kept.len(),
        })
    }
}

fn column<'o, T>(
    observations: &'o [LatePublicationObservation],
    value: impl Fn(&'o LatePublicationObservation) -> T,
) -> Vec<T> {
    observations.iter().map(value).collect()
}
