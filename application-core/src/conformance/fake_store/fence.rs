//! The fake store's claim fences.
//!
//! Invariant: a fence is changed by the single writer, so no claim is under way beside it.

use super::FakeStore;
use super::state::State;
use crate::event::StoredOutboxEvent;
use crate::ports::{ClaimFencePort, FenceError, FenceOutcome, FenceScope, OperatorAct};

/// Fences that stand at once; everything may always be fenced.
const MAXIMUM: u32 = 256;

#[async_trait::async_trait]
impl ClaimFencePort for FakeStore {
    async fn raise(
        &self,
        scope: &FenceScope,
        _act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        let mut tx = self.begin().await;
        let stand = u32::try_from(tx.state.fences.len()).unwrap_or(u32::MAX);
        if tx.state.fences.contains(scope) {
            return Ok(FenceOutcome::Unchanged);
        }
        if stand >= MAXIMUM && *scope != FenceScope::Everything {
            return Ok(FenceOutcome::Full { maximum: MAXIMUM });
        }
        tx.state.fences.insert(scope.clone());
        tx.state.authority_audit.push("FENCE_RAISED");
        self.commit(tx);
        Ok(FenceOutcome::Changed)
    }

    async fn lift(
        &self,
        scope: &FenceScope,
        _act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        let mut tx = self.begin().await;
        if !tx.state.fences.remove(scope) {
            return Ok(FenceOutcome::Unchanged);
        }
        tx.state.authority_audit.push("FENCE_LIFTED");
        self.commit(tx);
        Ok(FenceOutcome::Changed)
    }

    async fn standing(&self) -> Result<Vec<FenceScope>, FenceError> {
        let mut standing: Vec<_> = self.state().fences.iter().cloned().collect();
        standing.sort_by(|one, other| {
            (one.kind(), one.subject()).cmp(&(other.kind(), other.subject()))
        });
        Ok(standing)
    }
}

impl State {
    /// Whether a fence covers the event.
    pub(super) fn is_fenced(&self, event: &StoredOutboxEvent) -> bool {
        self.fences.iter().any(|fence| match fence {
            FenceScope::Everything => true,
            FenceScope::Destination(destination) => *destination == event.identities.destination,
            FenceScope::OrderingScope(key) => *key == event.partition_key,
            FenceScope::Event(event_id) => *event_id == event.identities.event_id,
        })
    }
}
