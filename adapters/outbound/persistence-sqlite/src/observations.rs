//! Late acknowledgements, appended to the attempt journal.
//!
//! Invariant: no statement here touches a delivery. Nothing is lost by an answer that did not
//! come: writing a batch again is absorbed.

use crate::deliveries::SqliteDeliveries;
use crate::errors::CommitError;
use application_core::ports::{
    LatePublicationObservation, LateWriteError, LateWriteReport, OutboxAttemptObservationPort,
};
use sqlx::SqliteConnection;

fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> LateWriteError {
    LateWriteError::Unavailable(Box::new(error))
}

#[async_trait::async_trait]
impl OutboxAttemptObservationPort for SqliteDeliveries {
    async fn append_late_observations(
        &self,
        observations: &[LatePublicationObservation],
    ) -> Result<LateWriteReport, LateWriteError> {
        let mut report = LateWriteReport::default();
        if observations.is_empty() {
            return Ok(report);
        }
        let mut tx = self.writer.begin().await.map_err(unavailable)?;
        for observation in observations {
            let written = append(tx.connection(), observation).await;
            match written.map_err(unavailable)? {
                Written::Appended => report.appended += 1,
                Written::Duplicate => report.duplicates += 1,
                Written::Orphaned => report.orphaned += 1,
            }
        }
        match tx.commit().await {
            Ok(()) => Ok(report),
            Err(CommitError::Unknown(error)) => {
                Err(LateWriteError::OutcomeUnknown(Box::new(error)))
            }
            Err(error) => Err(unavailable(error)),
        }
    }
}

enum Written {
    Appended,
    Duplicate,
    Orphaned,
}

async fn append(
    connection: &mut SqliteConnection,
    observation: &LatePublicationObservation,
) -> Result<Written, sqlx::Error> {
    let attempt = &observation.attempt;
    let inserted = sqlx::query(include_str!("sql/append_late_observation.sql"))
        .bind(attempt.event_id.as_str())
        .bind(attempt.generation.value())
        .bind(attempt.attempt_id.as_str())
        .bind(attempt.claim_token.digest().as_bytes().as_slice())
        .bind(observation.producer_generation.as_str())
        .bind(observation.binding_revision.as_str())
        .bind(observation.observed_at.epoch_micros())
        .bind(observation.record_reference.as_str())
        .bind(observation.certainty.as_str())
        .bind(observation.disposition().as_str())
        .execute(&mut *connection)
        .await?;
    if inserted.rows_affected() == 1 {
        return Ok(Written::Appended);
    }
    let there: bool = sqlx::query_scalar(include_str!("sql/select_admission_exists.sql"))
        .bind(attempt.event_id.as_str())
        .bind(attempt.generation.value())
        .bind(attempt.attempt_id.as_str())
        .bind(attempt.claim_token.digest().as_bytes().as_slice())
        .fetch_one(connection)
        .await?;
    Ok(if there {
        Written::Duplicate
    } else {
        Written::Orphaned
    })
}
