//! The records that wait for the writer.
//!
//! Invariant: the queue never holds more than its bound, in memory either: the payload of a record
//! that cannot fit is let go of at once and only its size waits for its turn. Once latched or closed
//! the queue takes nothing more.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::append::{AppendOutcome, CommitFailure, NewRecord, Refusal, Ticket};
use crate::limits::Limits;
use crate::record::{self, EventType, EventVersion, MAX_RECORD_BYTES};

pub(crate) struct Pending {
    pub(crate) event_type: EventType,
    pub(crate) version: EventVersion,
    /// Empty when `payload_len` alone exceeds what a record may take.
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_len: usize,
    pub(crate) ticket: Ticket,
    // The most this record adds to a batch.
    charge: usize,
}

pub(crate) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    pending: VecDeque<Pending>,
    door: Door,
}

enum Door {
    Open,
    Closed,
    Latched(Arc<CommitFailure>),
}

impl Pending {
    pub(crate) fn new(record: NewRecord, ticket: Ticket) -> Pending {
        let NewRecord {
            event_type,
            version,
            payload,
        } = record;
        let payload_len = payload.as_bytes().len();
        let name_len = event_type.as_str().len();
        let worst = record::worst_encoded_len(name_len, version.value(), payload_len);
        Pending {
            payload: if payload_len > MAX_RECORD_BYTES {
                Vec::new()
            } else {
                payload.into_bytes()
            },
            event_type,
            version,
            payload_len,
            ticket,
            charge: worst.min(MAX_RECORD_BYTES),
        }
    }
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Queue {
        Queue {
            limits,
            state: Mutex::new(State {
                pending: VecDeque::new(),
                door: Door::Open,
            }),
            work: Condvar::new(),
        }
    }

    /// Takes a record in, or answers it at once.
    pub(crate) fn push(&self, pending: Pending) {
        // Answers run callbacks, so they are given after the lock is gone.
        let (pending, outcome) = {
            let mut state = self.lock();
            match &state.door {
                Door::Open if state.pending.len() < self.limits.max_queued_records() => {
                    state.pending.push_back(pending);
                    self.work.notify_one();
                    return;
                }
                Door::Open => (pending, AppendOutcome::Refused(Refusal::QueueFull)),
                Door::Closed => (pending, AppendOutcome::Refused(Refusal::Closed)),
                Door::Latched(failure) => {
                    let failure = Arc::clone(failure);
                    (pending, AppendOutcome::Latched(failure))
                }
            }
        };
        pending.ticket.answer(outcome);
    }

    /// Waits for records and takes as many as one batch holds; `None` once closed and empty.
    pub(crate) fn next_batch(&self) -> Option<Vec<Pending>> {
        let mut state = self.lock();
        while state.pending.is_empty() {
            if !matches!(state.door, Door::Open) {
                return None;
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let mut bytes = 0;
        let taken = state
            .pending
            .iter()
            .take(self.limits.max_batch_records())
            .take_while(|pending| {
                bytes += pending.charge;
                bytes <= self.limits.max_batch_bytes()
            })
            .count();
        Some(state.pending.drain(..taken).collect())
    }

    /// Takes no more records; those inside are still committed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if matches!(state.door, Door::Open) {
            state.door = Door::Closed;
        }
        self.work.notify_one();
    }

    /// Takes no more records and gives up those inside.
    pub(crate) fn latch(&self, failure: &Arc<CommitFailure>) -> Vec<Pending> {
        let mut state = self.lock();
        state.door = Door::Latched(Arc::clone(failure));
        state.pending.drain(..).collect()
    }

    pub(crate) fn failure(&self) -> Option<Arc<CommitFailure>> {
        match &self.lock().door {
            Door::Latched(failure) => Some(Arc::clone(failure)),
            Door::Open | Door::Closed => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
