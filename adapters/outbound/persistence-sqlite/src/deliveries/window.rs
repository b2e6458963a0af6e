//! Windows: the same claims and outcomes as alone, many in one transaction of the single writer.
//!
//! Invariant: a lapsed claim has a window of its own; a record's trouble touches no other, since a
//! refused statement is undone alone and its record is then held.

use super::SqliteDeliveries;
use super::claim::{committed, take_next};
use super::record::{RefusedRecord, record_one};
use crate::errors::{CommitError, Failure, classify};
use application_core::ports::{
    ClaimError, ClaimOutcome, ClaimRequest, OutboxWindowPort, OutcomeRecord, RecordError,
    RecordOutcome, SpentDelivery, WindowClaim, WindowRequest,
};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RelayDecision,
    RetryDisposition,
};
use std::sync::Arc;

#[async_trait::async_trait]
impl OutboxWindowPort for SqliteDeliveries {
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError> {
        let unavailable = |error: sqlx::Error| ClaimError::Unavailable(Box::new(error));
        let mut claim = WindowClaim::default();
        let mut tx = self.writer.begin().await.map_err(unavailable)?;
        for fresh in &request.attempts {
            let alone = ClaimRequest {
                owner: request.owner.clone(),
                token: fresh.token,
                attempt_id: fresh.attempt_id.clone(),
                producer_generation: request.producer_generation.clone(),
                lease: request.lease,
                attempt_budget: request.attempt_budget,
                maximum_attempts: request.maximum_attempts,
                known: Arc::clone(&request.known),
            };
            let first = claim.claimed.is_empty() && claim.spent.is_empty();
            let taken = match take_next(&mut tx, &alone, first).await {
                Ok(Some(taken)) => taken,
                // A lapsed claim is next, and this window has others already.
                Ok(None) => {
                    claim.unfinished = true;
                    break;
                }
                // What was taken before stands; the row that cannot be read is met again alone.
                Err(ClaimError::Corrupt { .. }) if !first => break,
                Err(error) => return Err(error),
            };
            match taken.outcome {
                ClaimOutcome::Claimed(claimed) => claim.claimed.push(*claimed),
                ClaimOutcome::BudgetSpent {
                    event_id,
                    generation,
                    reason,
                } => claim.spent.push(SpentDelivery {
                    event_id,
                    generation,
                    reason,
                }),
                ClaimOutcome::Nothing | ClaimOutcome::Unfinished => break,
            }
            if taken.lapsed {
                claim.unfinished = true;
                break;
            }
        }
        if claim.claimed.is_empty() && claim.spent.is_empty() {
            tx.rollback().await;
            return Ok(claim);
        }
        committed(tx).await?;
        Ok(claim)
    }

    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        let unavailable = |error: sqlx::Error| RecordError::Unavailable(Box::new(error));
        let mut tx = self.writer.begin().await.map_err(unavailable)?;
        let mut outcomes = Vec::with_capacity(records.len());
        for record in records {
            let outcome = match record_one(&mut tx, record).await {
                Err(RefusedRecord::Database(error))
                    if matches!(classify(&error), Failure::Constraint | Failure::Value) =>
                {
                    record_one(&mut tx, &held(record)).await
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
