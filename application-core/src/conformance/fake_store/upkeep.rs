//! The fake store's retention and capacity.
//!
//! Invariant: an event leaves every table at once, or stays in all of them.

use super::FakeStore;
use super::state::{State, count};
use crate::conformance::outbox::{ObservationRow, ObservationType};
use crate::ports::{
    CapacityError, OperatorAct, OutboxCapacityPort, OutboxRetentionPort, ReapReport, ReapRequest,
    RetentionError,
};
use domain_core::capacity::BacklogSample;
use domain_core::identity::EventId;

#[async_trait::async_trait]
impl OutboxRetentionPort for FakeStore {
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, RetentionError> {
        let mut tx = self.begin().await;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let gone: Vec<EventId> = tx
            .state
            .deliveries
            .keys()
            .filter(|event_id| tx.state.may_go(event_id, request))
            .take(limit)
            .cloned()
            .collect();
        for event_id in &gone {
            tx.state.remove(event_id);
        }
        self.commit(tx);
        Ok(ReapReport {
            removed: count(gone.len()),
            finished: gone.len() < limit,
        })
    }

    async fn place_legal_hold(
        &self,
        event_id: &EventId,
        _act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        let mut tx = self.begin().await;
        if !tx.state.events.contains_key(event_id) {
            return Err(RetentionError::NoEvent);
        }
        let placed = tx.state.legal_holds.insert(event_id.clone());
        if placed {
            tx.state.authority_audit.push("LEGAL_HOLD_PLACED");
            self.commit(tx);
        }
        Ok(placed)
    }

    async fn lift_legal_hold(
        &self,
        event_id: &EventId,
        _act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        let mut tx = self.begin().await;
        let lifted = tx.state.legal_holds.remove(event_id);
        if lifted {
            tx.state.authority_audit.push("LEGAL_HOLD_LIFTED");
            self.commit(tx);
        }
        Ok(lifted)
    }
}

#[async_trait::async_trait]
impl OutboxCapacityPort for FakeStore {
    async fn sample(&self, enough: u64) -> Result<BacklogSample, CapacityError> {
        let state = self.state();
        let unresolved: Vec<_> = state
            .deliveries
            .values()
            .filter(|delivery| !delivery.state.name().releases_scope())
            .map(|delivery| delivery.created_at)
            .collect();
        let stored = state.events.values().map(|event| event.envelope.len());
        Ok(BacklogSample {
            at: state.now,
            unresolved: count(unresolved.len()).min(enough.saturating_add(1)),
            oldest: unresolved.into_iter().min(),
            store_bytes: count(stored.sum()),
        })
    }
}

impl State {
    /// Every condition of requirement 004 §19.6.
    fn may_go(&self, event_id: &EventId, request: &ReapRequest) -> bool {
        let (event, delivery) = (&self.events[event_id], &self.deliveries[event_id]);
        let old = delivery
            .ended_at
            .is_some_and(|ended| ended.plus(request.audit_retention) <= self.now);
        let open = |rows: &Vec<ObservationRow>| {
            let closed = |attempt| {
                rows.iter().any(|row: &ObservationRow| {
                    row.attempt_id == attempt && row.observation == ObservationType::OutcomeObserved
                })
            };
            rows.iter().any(|row| {
                row.observation == ObservationType::AttemptAdmitted
                    && !closed(row.attempt_id.clone())
            })
        };
        let named = |audit: &Vec<Option<EventId>>| audit.contains(&Some(event_id.clone()));
        delivery.state.name().releases_scope()
            && old
            && event.created_at.plus(request.replay_horizon) <= self.now
            && !self.legal_holds.contains(event_id)
            && !self.journal.get(event_id).is_some_and(open)
            && !self.dispositions.values().any(named)
    }

    fn remove(&mut self, event_id: &EventId) {
        self.dispositions.remove(event_id);
        self.journal.remove(event_id);
        self.deliveries.remove(event_id);
        self.events.remove(event_id);
    }
}
