//! Commits that came after their attempt's outcome was decided.
//!
//! Invariant: the queue is bounded, leased observations included, holds no payload, and none of its
//! methods waits for anything but its own short lock. What does not fit is counted, not kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use application_core::ports::{
    LateObservationId, LatePublicationObservation, LatePublicationObservationSource,
};

pub(super) struct LateQueue {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    waiting: VecDeque<LatePublicationObservation>,
    leased: HashMap<LateObservationId, LatePublicationObservation>,
    dropped: u64,
}

impl LateQueue {
    pub(super) fn new(capacity: usize) -> LateQueue {
        LateQueue {
            capacity,
            state: Mutex::default(),
        }
    }

    /// Queues the observation that `build` makes of its new id, or counts it as dropped.
    pub(super) fn offer(
        &self,
        build: impl FnOnce(LateObservationId) -> LatePublicationObservation,
    ) {
        let mut state = self.lock();
        if state.waiting.len() + state.leased.len() >= self.capacity {
            state.dropped += 1;
            return;
        }
        state.last_id += 1;
        let id = LateObservationId(state.last_id);
        state.waiting.push_back(build(id));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LatePublicationObservationSource for LateQueue {
    fn poll_bounded(&self, maximum: usize) -> Vec<LatePublicationObservation> {
        let mut state = self.lock();
        let count = maximum.min(state.waiting.len());
        let taken: Vec<_> = state.waiting.drain(..count).collect();
        for observation in &taken {
            state.leased.insert(observation.id, observation.clone());
        }
        taken
    }

    fn acknowledge_persisted(&self, id: LateObservationId) {
        self.lock().leased.remove(&id);
    }

    fn release_for_retry(&self, id: LateObservationId) {
        let mut state = self.lock();
        if let Some(observation) = state.leased.remove(&id) {
            state.waiting.push_back(observation);
        }
    }

    fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}
