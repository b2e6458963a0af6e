//! Late acknowledgements, in a transaction of their own.
//!
//! Invariant: the deliveries are locked before the journal is read, and nothing of a delivery is
//! changed; an observation that is there already, or whose attempt was never admitted, spoils no
//! other.

use super::PostgresDeliveries;
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use application_core::ports::{LatePublicationObservation, LateWriteError, LateWriteReport};
use sqlx::PgConnection;
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
        sqlx::query(include_str!("../sql/lock_deliveries.sql"))
            .bind(column(observations, |one| one.attempt.event_id.as_str()))
            .bind(column(observations, |one| one.attempt.generation.value()))
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        let kept = admitted(&mut tx, observations).await.map_err(failed)?;
        let written = sqlx::query(include_str!("../sql/late_observations.sql"))
            .bind(column(kept.iter().copied(), |one| {
                one.attempt.event_id.as_str()
            }))
            .bind(column(kept.iter().copied(), |one| {
                one.attempt.generation.value()
            }))
            .bind(column(kept.iter().copied(), |one| {
                one.attempt.attempt_id.as_str()
            }))
            .bind(digests(&kept))
            .bind(column(kept.iter().copied(), |one| {
                one.producer_generation.as_str()
            }))
            .bind(column(kept.iter().copied(), |one| {
                one.binding_revision.as_str()
            }))
            .bind(column(kept.iter().copied(), |one| {
                one.observed_at.epoch_micros()
            }))
            .bind(column(kept.iter().copied(), |one| {
                one.record_reference.as_str()
            }))
            .bind(column(kept.iter().copied(), |one| one.certainty.as_str()))
            .bind(column(kept.iter().copied(), |one| {
                one.disposition().as_str()
            }))
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

/// The observations whose attempt was admitted under its token.
async fn admitted<'o>(
    connection: &mut PgConnection,
    observations: &'o [LatePublicationObservation],
) -> Result<Vec<&'o LatePublicationObservation>, sqlx::Error> {
    let all: Vec<_> = observations.iter().collect();
    let places: Vec<i64> = sqlx::query_scalar(include_str!("../sql/admitted_attempts.sql"))
        .bind(column(observations, |one| one.attempt.event_id.as_str()))
        .bind(column(observations, |one| one.attempt.generation.value()))
        .bind(column(observations, |one| one.attempt.attempt_id.as_str()))
        .bind(digests(&all))
        .fetch_all(connection)
        .await?;
    let places: BTreeSet<i64> = places.into_iter().collect();
    Ok((1..)
        .zip(all)
        .filter(|(place, _)| places.contains(place))
        .map(|(_, one)| one)
        .collect())
}

fn digests(observations: &[&LatePublicationObservation]) -> Vec<Vec<u8>> {
    observations
        .iter()
        .map(|one| one.attempt.claim_token.digest().as_bytes().to_vec())
        .collect()
}

fn column<'o, T>(
    observations: impl IntoIterator<Item = &'o LatePublicationObservation>,
    value: impl Fn(&'o LatePublicationObservation) -> T,
) -> Vec<T> {
    observations.into_iter().map(value).collect()
}
