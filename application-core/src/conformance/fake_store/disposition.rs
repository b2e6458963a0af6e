//! The fake store's dispositions.
//!
//! Invariant: [`decide`] says what happens; this module only writes it, with its audit row.

use super::FakeStore;
use super::state::{ABANDONED, Delivery, State};
use crate::disposition::{CurrentDelivery, DispositionDecision, decide};
use crate::ports::{
    Disposed, Disposition, DispositionCommand, DispositionConflict, DispositionError,
    DispositionOutcome, OutboxDispositionPort,
};
use domain_core::delivery::{DeliveryState, DeliveryStateName, PublicationWindow};
use domain_core::identity::{DeliveryGeneration, EventId, RowVersion};
use domain_core::publication::AcceptanceCertainty;

#[async_trait::async_trait]
impl OutboxDispositionPort for FakeStore {
    async fn apply(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, DispositionError> {
        let mut tx = self.begin().await;
        Ok(match tx.state.dispose(command) {
            Ok(disposed) => {
                self.commit(tx);
                DispositionOutcome::Applied(disposed)
            }
            Err(conflict) => DispositionOutcome::Conflict(conflict),
        })
    }
}

impl State {
    fn dispose(&mut self, command: &DispositionCommand) -> Result<Disposed, DispositionConflict> {
        let event_id = &command.event_id;
        let Some(delivery) = self.deliveries.get(event_id) else {
            return Err(DispositionConflict::NoDelivery);
        };
        let event = &self.events[event_id];
        let current = CurrentDelivery {
            generation: delivery.generation,
            row_version: version(delivery),
            state: delivery.state.clone(),
            authority: event.dispatch_authority,
            event_created_at: event.created_at,
            now: self.now,
        };
        let compensating = match &command.disposition {
            Disposition::Compensate {
                compensating_event, ..
            } => Some(compensating_event.clone()),
            _ => None,
        };
        let moved = match decide(&current, command, self.polls())? {
            DispositionDecision::Move { to, .. } => {
                let there = |id: &EventId| self.events.contains_key(id);
                if !compensating.as_ref().is_none_or(there) {
                    return Err(DispositionConflict::NoCompensation);
                }
                self.moved(delivery.clone(), to)
            }
            DispositionDecision::Requeue(window) => self.requeued(event_id, window),
        };
        let disposed = Disposed {
            generation: moved.generation,
            state: moved.state.name(),
            row_version: version(&moved),
        };
        self.deliveries.insert(event_id.clone(), moved);
        self.dispositions
            .entry(event_id.clone())
            .or_default()
            .push(compensating);
        Ok(disposed)
    }

    /// The same generation in another state; a lapsed claim's attempt is closed.
    fn moved(&mut self, mut delivery: Delivery, to: DeliveryStateName) -> Delivery {
        if let Some(open) = delivery.open_attempt.take() {
            self.close_abandoned(&open);
            delivery.last_certainty = Some(AcceptanceCertainty::Indeterminate);
            delivery.last_failure = Some(ABANDONED);
        }
        delivery.state = match to {
            DeliveryStateName::Skipped => DeliveryState::Skipped,
            DeliveryStateName::Compensated => DeliveryState::Compensated,
            DeliveryStateName::LegacyAcceptedUnverified => DeliveryState::LegacyAcceptedUnverified,
            _ => DeliveryState::Hold,
        };
        delivery.ended_at = Some(self.now);
        delivery.row_version += 1;
        delivery
    }

    /// The generation that takes over.
    fn requeued(&self, event_id: &EventId, window: PublicationWindow) -> Delivery {
        let old = &self.deliveries[event_id];
        let next = DeliveryGeneration::new(old.generation.value() + 1).expect("a generation");
        let deadline = window.deadline(self.events[event_id].created_at, self.now);
        let mut superseded = old.superseded.clone();
        superseded.push(old.state.name());
        Delivery {
            superseded,
            ..Delivery::ready(next, self.now, deadline)
        }
    }
}

fn version(delivery: &Delivery) -> RowVersion {
    RowVersion::new(delivery.row_version).expect("a row version")
}
