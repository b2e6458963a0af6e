//! Tx C of a window: the outcomes that have arrived, each under its own compare-and-set.
//!
//! Invariant: rows are locked by key, in key order, before a lease is compared. A record that the
//! database refuses is found by halving the batch and held alone; the others are recorded.

use super::PostgresWindows;
use crate::errors::{Abort, DatabaseFault, FaultKind};
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::ports::{OutcomeRecord, RecordError, RecordOutcome};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RelayDecision,
    RetryDisposition,
};
use sqlx::{PgConnection, Row as _};

type RecordAbort = Abort<RecordError>;

fn unavailable(fault: DatabaseFault) -> RecordError {
    RecordError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> RecordError {
    RecordError::OutcomeUnknown(Box::new(fault))
}

/// Why a batch did not go through.
enum BatchFailure {
    /// The database refused a value: class 22 or 23.
    Refused(DatabaseFault),
    Abort(RecordAbort),
}

fn error_of(abort: RecordAbort) -> RecordError {
    match abort {
        Abort::Failed(error) => error,
        Abort::Again(fault) => unavailable(fault),
    }
}

impl PostgresWindows {
    pub(super) async fn record(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        let key = |place: usize| {
            let attempt = &records[place].attempt;
            (
                attempt.event_id.as_str(),
                attempt.generation,
                attempt.claim_token.as_bytes(),
            )
        };
        let mut order: Vec<usize> = (0..records.len()).collect();
        order.sort_by_key(|place| key(*place));
        // A claim ends once; whoever asks again in the same breath is stale.
        order.dedup_by_key(|place| key(*place));
        let mut outcomes = vec![RecordOutcome::Stale; records.len()];
        let mut batches = vec![order];
        // A record that cannot even be held stops nobody else; the others are recorded first.
        let mut failed = None;
        while let Some(mut batch) = batches.pop() {
            let asked: Vec<&OutcomeRecord> = batch.iter().map(|place| &records[*place]).collect();
            match self.record_repeated(&asked).await {
                Ok(recorded) => {
                    for place in recorded {
                        if let Some(place) = batch.get(place) {
                            let state = records[*place].decision.state();
                            outcomes[*place] = RecordOutcome::Recorded(state);
                        }
                    }
                }
                Err(BatchFailure::Refused(_)) if batch.len() == 1 => {
                    let place = batch[0];
                    match self.hold(&records[place]).await {
                        Ok(outcome) => outcomes[place] = outcome,
                        Err(error) => failed = Some(error),
                    }
                }
                Err(BatchFailure::Refused(_)) => {
                    let rest = batch.split_off(batch.len() / 2);
                    batches.push(rest);
                    batches.push(batch);
                }
                Err(BatchFailure::Abort(abort)) => {
                    failed = Some(error_of(abort));
                    break;
                }
            }
        }
        // Once a part is recorded, each record has to be looked up.
        let partly = outcomes.iter().any(|one| *one != RecordOutcome::Stale);
        match failed {
            None => Ok(outcomes),
            Some(RecordError::Unavailable(cause)) if partly => {
                Err(RecordError::OutcomeUnknown(cause))
            }
            Some(error) => Err(error),
        }
    }

    /// Holds a record whose outcome has a value that the database refuses. What became of it at
    /// the broker stays open, since nothing of the refused outcome is kept.
    async fn hold(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        let held = OutcomeRecord {
            outcome: PublicationOutcome::Indeterminate(PublicationFailure {
                stage: FailureStage::Serialization,
                class: FailureClass::RecordIntegrity,
                disposition: RetryDisposition::OperatorHold,
            }),
            decision: RelayDecision::Hold,
            ..record.clone()
        };
        match self.record_repeated(&[&held]).await {
            Ok(recorded) if recorded.is_empty() => Ok(RecordOutcome::Stale),
            Ok(_) => Ok(RecordOutcome::Recorded(held.decision.state())),
            Err(BatchFailure::Refused(fault)) => Err(unavailable(fault)),
            Err(BatchFailure::Abort(abort)) => Err(error_of(abort)),
        }
    }

    /// One batch, repeated as the database asks; the places that were recorded.
    async fn record_repeated(
        &self,
        records: &[&OutcomeRecord],
    ) -> Result<Vec<usize>, BatchFailure> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.record_batch(records).await {
                Err(BatchFailure::Abort(Abort::Again(_))) if repeats.again() => {}
                result => return result,
            }
        }
    }

    async fn record_batch(&self, records: &[&OutcomeRecord]) -> Result<Vec<usize>, BatchFailure> {
        let mut tx = self
            .sessions
            .begin(Access::Batch)
            .await
            .map_err(|fault| BatchFailure::Abort(Abort::of(fault, unavailable)))?;
        let recorded = statements(&mut tx, records)
            .await
            .map_err(|fault| match fault.kind() {
                FaultKind::Refused => BatchFailure::Refused(fault),
                _ => BatchFailure::Abort(Abort::of(fault, unavailable)),
            })?;
        if recorded.is_empty() {
            session::roll_back(tx).await;
        } else {
            session::commit(tx).await.map_err(|fault| {
                BatchFailure::Abort(Abort::of_commit(fault, unavailable, unknown))
            })?;
        }
        Ok(recorded)
    }
}

async fn statements(
    connection: &mut PgConnection,
    records: &[&OutcomeRecord],
) -> Result<Vec<usize>, DatabaseFault> {
    let events: Vec<&str> = records
        .iter()
        .map(|one| one.attempt.event_id.as_str())
        .collect();
    let generations: Vec<i64> = records
        .iter()
        .map(|one| one.attempt.generation.value())
        .collect();
    if let [alone] = records {
        sqlx::query(include_str!("../sql/lock_delivery.sql"))
            .bind(alone.attempt.event_id.as_str())
            .bind(alone.attempt.generation.value())
            .fetch_optional(&mut *connection)
            .await?;
    }
    let tokens: Vec<&[u8]> = records
        .iter()
        .map(|one| &one.attempt.claim_token.as_bytes()[..])
        .collect();
    let digests: Vec<Vec<u8>> = records
        .iter()
        .map(|one| one.attempt.claim_token.digest().as_bytes().to_vec())
        .collect();
    let failures = || records.iter().map(|one| one.outcome.failure());
    let classes: Vec<Option<&str>> = failures()
        .map(|failure| failure.map(|failure| failure.class.as_str()))
        .collect();
    let stages: Vec<Option<&str>> = failures()
        .map(|failure| failure.map(|failure| failure.stage.as_str()))
        .collect();
    let references: Vec<Option<&str>> = records
        .iter()
        .map(|one| {
            one.outcome
                .receipt()
                .map(|receipt| receipt.record_reference.as_str())
        })
        .collect();
    let acknowledged: Vec<Option<i64>> = records
        .iter()
        .map(|one| {
            one.outcome
                .receipt()
                .map(|receipt| receipt.acknowledged_at.epoch_micros())
        })
        .collect();
    let column = |value: fn(&OutcomeRecord) -> &str| -> Vec<&str> {
        records.iter().map(|one| value(one)).collect()
    };
    let delays: Vec<i64> = records
        .iter()
        .map(|one| micros(one.decision.delay()))
        .collect();
    let row = sqlx::query(include_str!("../sql/record_window.sql"))
        .bind(&events)
        .bind(&generations)
        .bind(tokens)
        .bind(column(|one| one.owner.as_str()))
        .bind(column(|one| one.decision.state().as_str()))
        .bind(delays)
        .bind(column(|one| one.outcome.certainty().as_str()))
        .bind(column(|one| one.outcome.disposition().as_str()))
        .bind(classes)
        .bind(stages)
        .bind(column(|one| one.producer_generation.as_str()))
        .bind(references)
        .bind(acknowledged)
        .bind(column(|one| one.attempt.attempt_id.as_str()))
        .bind(digests)
        .bind(column(|one| one.binding_revision.as_str()))
        .fetch_one(connection)
        .await?;
    let places: Vec<i64> = row.try_get("places")?;
    let (observed, live): (i64, i64) = (row.try_get("observed")?, row.try_get("live")?);
    // What must be inserted is counted.
    if usize::try_from(observed) != Ok(places.len()) {
        return Err(DatabaseFault::RowCount);
    }
    if usize::try_from(live) != Ok(places.len()) {
        return Err(DatabaseFault::Moved);
    }
    places
        .into_iter()
        .map(|place| {
            usize::try_from(place)
                .ok()
                .and_then(|place| place.checked_sub(1))
                .ok_or(DatabaseFault::RowCount)
        })
        .collect()
}
