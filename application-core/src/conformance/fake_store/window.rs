//! The fake store's windows: its own claims and outcomes, many in one transaction.
//!
//! Invariant: a window is a sequence of the same decisions that one record's claim or outcome is.

use super::FakeStore;
use crate::ports::{
    ClaimError, ClaimOutcome, ClaimRequest, OutboxWindowPort, OutcomeRecord, RecordError,
    RecordOutcome, SpentDelivery, WindowClaim, WindowRequest,
};
use domain_core::delivery::DeliveryState;
use domain_core::publication::RelayDecision;
use std::sync::Arc;

#[async_trait::async_trait]
impl OutboxWindowPort for FakeStore {
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError> {
        let mut tx = self.begin().await;
        let mut claim = WindowClaim::default();
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
            // A lapsed claim has a window of its own.
            let lapsed = tx
                .state
                .candidate(&alone, request.share)
                .is_some_and(|event_id| {
                    matches!(
                        tx.state.deliveries[&event_id].state,
                        DeliveryState::Claimed(_)
                    )
                });
            if lapsed && !(claim.claimed.is_empty() && claim.spent.is_empty()) {
                claim.unfinished = true;
                break;
            }
            match tx.state.claim_within(&alone, request.share)? {
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
            if lapsed {
                claim.unfinished = true;
                break;
            }
        }
        self.commit(tx);
        Ok(claim)
    }

    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        let mut tx = self.begin().await;
        let mut outcomes = Vec::with_capacity(records.len());
        for record in records {
            let outcome = match tx.state.record(record) {
                Err(_) => tx.state.record(&OutcomeRecord {
                    decision: RelayDecision::Hold,
                    ..record.clone()
                }),
                answered => answered,
            };
            outcomes.push(outcome?);
        }
        self.commit(tx);
        Ok(outcomes)
    }
}
