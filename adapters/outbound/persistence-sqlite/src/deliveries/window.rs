//! Windows: the same claims and outcomes as alone, many in one transaction of the single writer.
//!
//! Invariant: a lapsed claim has a window of its own; a record's trouble touches no other, since
//! each has a savepoint and what the database refuses is undone alone.

use super::claim::{NotTaken, commit, take, unavailable};
use super::heads::Candidate;
use super::record::{RefusedRecord, record_one};
use super::scan::{Found, Search};
use super::{Document, SqliteDeliveries};
use crate::errors::{CommitError, Failure, classify};
use application_core::ports::{
    ClaimError, ClaimOutcome, ClaimRequest, FreshAttempt, OutboxWindowPort, OutcomeRecord,
    RecordError, RecordOutcome, SpentDelivery, WindowClaim, WindowRequest,
};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RelayDecision,
    RetryDisposition,
};
use sqlx::{Connection as _, SqliteConnection};
use std::sync::Arc;

#[async_trait::async_trait]
impl OutboxWindowPort for SqliteDeliveries {
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError> {
        if request.attempts.is_empty() {
            return Ok(WindowClaim::default());
        }
        let search = Search {
            share: request.share,
            known: &request.known,
            limit: request.attempts.len(),
            lapsed_alone: true,
            document: Document::Read,
        };
        let found = {
            let mut look = self.reads.acquire().await.map_err(unavailable)?;
            let found = self.places.look(&mut look, &search).await;
            found.map_err(NotTaken::from)?
        };
        let claim = self.take_window(request, &found).await;
        claim.inspect_err(|_| self.places.untried(&found))
    }

    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        let unavailable = |error: sqlx::Error| RecordError::Unavailable(Box::new(error));
        let mut tx = self.writer.begin().await.map_err(unavailable)?;
        let mut outcomes = Vec::with_capacity(records.len());
        for record in records {
            let outcome = match record_apart(tx.connection(), record).await {
                Err(RefusedRecord::Database(error)) if is_about_the_row(&error) => {
                    record_apart(tx.connection(), &held(record)).await
                }
                outcome => outcome,
            };
            outcomes.push(outcome.map_err(|error| RecordError::Unavailable(Box::new(error)))?);
        }
        match tx.commit().await {
            Ok(()) => Ok(outcomes),
            Err(CommitError::Unknown(error)) => Err(RecordError::OutcomeUnknown(Box::new(error))),
            Err(error) => Err(RecordError::Unavailable(Box::new(error))),
        }
    }
}

impl SqliteDeliveries {
    /// Tx B for what a look found.
    async fn take_window(
        &self,
        request: &WindowRequest,
        found: &Found,
    ) -> Result<WindowClaim, ClaimError> {
        let mut claim = WindowClaim {
            unfinished: !found.finished,
            ..WindowClaim::default()
        };
        let mut corrupt = found.corrupt.clone();
        if !found.candidates.is_empty() {
            let mut tx = self.writer.begin().await.map_err(unavailable)?;
            let mut attempts = request.attempts.iter();
            let mut attempt = attempts.next();
            for head in &found.candidates {
                let Some(fresh) = attempt else {
                    break;
                };
                match take_apart(tx.connection(), &alone(request, fresh), head).await {
                    Ok(Some(ClaimOutcome::Claimed(claimed))) => {
                        claim.claimed.push(*claimed);
                        attempt = attempts.next();
                    }
                    Ok(Some(ClaimOutcome::BudgetSpent {
                        event_id,
                        generation,
                        reason,
                    })) => claim.spent.push(SpentDelivery {
                        event_id,
                        generation,
                        reason,
                    }),
                    // Others were faster, or the clock moved: it is met again.
                    Ok(_) => claim.unfinished = true,
                    Err(NotTaken::Database(error)) if is_about_the_row(&error) => {
                        corrupt.get_or_insert_with(|| {
                            format!("event {}: the database refused its claim", head.event_id())
                        });
                    }
                    Err(NotTaken::Corrupt(what)) => drop(corrupt.get_or_insert(what)),
                    Err(error) => return Err(error.into()),
                }
            }
            if claim.claimed.is_empty() && claim.spent.is_empty() {
                tx.rollback().await;
            } else {
                commit(tx).await?;
                return Ok(claim);
            }
        }
        match corrupt {
            Some(what) if !claim.unfinished => Err(ClaimError::Corrupt { what }),
            _ => Ok(claim),
        }
    }
}

fn alone(request: &WindowRequest, fresh: &FreshAttempt) -> ClaimRequest {
    ClaimRequest {
        owner: request.owner.clone(),
        token: fresh.token,
        attempt_id: fresh.attempt_id.clone(),
        producer_generation: request.producer_generation.clone(),
        lease: request.lease,
        attempt_budget: request.attempt_budget,
        maximum_attempts: request.maximum_attempts,
        known: Arc::clone(&request.known),
    }
}

/// Whether the database refused a value or a row, and nothing is wrong with the transaction.
fn is_about_the_row(error: &sqlx::Error) -> bool {
    matches!(classify(error), Failure::Constraint | Failure::Value)
}

/// Takes one head within a savepoint: when it is not taken, nothing of it stays.
async fn take_apart(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    head: &Candidate,
) -> Result<Option<ClaimOutcome>, NotTaken> {
    let mut apart = connection.begin().await?;
    let taken = take(&mut apart, request, head).await;
    match &taken {
        Ok(Some(_)) => apart.commit().await?,
        Ok(None) | Err(_) => apart.rollback().await?,
    }
    taken
}

/// Records one outcome within a savepoint: when it is refused, nothing of it stays.
async fn record_apart(
    connection: &mut SqliteConnection,
    record: &OutcomeRecord,
) -> Result<RecordOutcome, RefusedRecord> {
    let mut apart = connection.begin().await.map_err(RefusedRecord::Database)?;
    let recorded = record_one(&mut apart, record).await;
    let ended = match &recorded {
        Ok(_) => apart.commit().await,
        Err(_) => apart.rollback().await,
    };
    ended.map_err(RefusedRecord::Database)?;
    recorded
}

/// Holds a record whose outcome has a value that the database refuses; nothing of it is kept.
fn held(record: &OutcomeRecord) -> OutcomeRecord {
    OutcomeRecord {
        outcome: PublicationOutcome::Indeterminate(PublicationFailure {
            stage: FailureStage::Serialization,
            class: FailureClass::RecordIntegrity,
            disposition: RetryDisposition::OperatorHold,
        }),
        decision: RelayDecision::Hold,
        ..record.clone()
    }
}
