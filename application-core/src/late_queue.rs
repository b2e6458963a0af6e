//! The queue in which a provider keeps acknowledgements that came after their attempt was decided,
//! until they are journalled. Every provider shares this one.
//!
//! Invariant: bounded, free of payloads, and never waited for. An observation is leased to one
//! reader at a time and forgotten only when it is durable; what finds the queue full is counted
//! (requirement 004 §15.2).

use crate::ports::{
    LateObservationId, LatePublicationObservation, LatePublicationObservationSource,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

struct Entry {
    observation: LatePublicationObservation,
    leased: bool,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<LateObservationId, Entry>,
    last_id: u64,
    dropped: u64,
}

/// The bounded queue.
pub struct LateObservationQueue {
    capacity: usize,
    state: Mutex<State>,
}

impl LateObservationQueue {
    /// `capacity` counts leased observations too.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
        }
    }

    /// Takes an observation, named by `make`, or counts it as dropped. Called on a client's
    /// callback thread, so it does nothing but move memory.
    pub fn offer(&self, make: impl FnOnce(LateObservationId) -> LatePublicationObservation) {
        let mut state = self.lock();
        if state.entries.len() >= self.capacity {
            state.dropped += 1;
            return;
        }
        state.last_id += 1;
        let id = LateObservationId(state.last_id);
        let entry = Entry {
            observation: make(id),
            leased: false,
        };
        state.entries.insert(id, entry);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LatePublicationObservationSource for LateObservationQueue {
    fn poll_bounded(&self, maximum: usize) -> Vec<LatePublicationObservation> {
        let mut state = self.lock();
        state
            .entries
            .values_mut()
            .filter(|entry| !entry.leased)
            .take(maximum)
            .map(|entry| {
                entry.leased = true;
                entry.observation.clone()
            })
            .collect()
    }

    fn acknowledge_persisted(&self, id: LateObservationId) {
        self.lock().entries.remove(&id);
    }

    fn release_for_retry(&self, id: LateObservationId) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.leased = false;
        }
    }

    fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::AttemptIdentity;
    use domain_core::identity::{
        ClaimToken, DeliveryGeneration, DestinationBindingRevision, EventId, ProducerGeneration,
        PublicationAttemptId,
    };
    use domain_core::instant::DatabaseInstant;
    use domain_core::publication::ProviderRecordReference;

    fn offer(queue: &LateObservationQueue) {
        queue.offer(|id| LatePublicationObservation {
            id,
            attempt: AttemptIdentity {
                event_id: EventId::parse("e").unwrap(),
                generation: DeliveryGeneration::FIRST,
                attempt_id: PublicationAttemptId::parse("a").unwrap(),
                claim_token: ClaimToken::from_random([1; 16]),
            },
            producer_generation: ProducerGeneration::parse("g").unwrap(),
            binding_revision: DestinationBindingRevision::parse("r").unwrap(),
            certainty: domain_core::publication::AcceptanceCertainty::Accepted,
            observed_at: DatabaseInstant::from_epoch_micros(1),
            record_reference: ProviderRecordReference::parse("r").unwrap(),
        });
    }

    fn ids(observations: &[LatePublicationObservation]) -> Vec<u64> {
        observations.iter().map(|one| one.id.0).collect()
    }

    #[test]
    fn each_observation_is_leased_once_until_it_is_released() {
        let queue = LateObservationQueue::new(10);
        (0..3).for_each(|_| offer(&queue));
        assert_eq!(ids(&queue.poll_bounded(2)), [1, 2]);
        assert_eq!(ids(&queue.poll_bounded(9)), [3]);
        assert!(queue.poll_bounded(9).is_empty());
        queue.release_for_retry(LateObservationId(2));
        queue.acknowledge_persisted(LateObservationId(1));
        queue.release_for_retry(LateObservationId(1));
        assert_eq!(ids(&queue.poll_bounded(9)), [2]);
    }

    #[test]
    fn leased_ones_take_room_and_the_rest_is_counted() {
        let queue = LateObservationQueue::new(2);
        (0..2).for_each(|_| offer(&queue));
        assert_eq!(queue.poll_bounded(2).len(), 2);
        offer(&queue);
        assert_eq!((queue.dropped(), queue.poll_bounded(9).len()), (1, 0));
        queue.acknowledge_persisted(LateObservationId(1));
        offer(&queue);
        assert_eq!((queue.dropped(), ids(&queue.poll_bounded(9))), (1, vec![3]));
    }
}
