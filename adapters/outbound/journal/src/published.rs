//! The head that readers may see.
//!
//! Invariant: the head is one value (sequence, end offset, checksum), replaced only after the bytes
//! before it were synced. No I/O, callback or await happens under its mutex.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain_core::journal::ChainHead;

pub(crate) struct Published {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    head: ChainHead,
    // No head will follow: the writer was closed or latched.
    ended: bool,
}

impl Published {
    pub(crate) fn new(head: ChainHead) -> Published {
        Published {
            state: Mutex::new(State { head, ended: false }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn head(&self) -> ChainHead {
        self.lock().head
    }

    pub(crate) fn publish(&self, head: ChainHead) {
        self.lock().head = head;
        self.changed.notify_all();
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits for a head of more than `records` records, at most `patience` long.
    pub(crate) fn wait_beyond(&self, records: u64, patience: Duration) -> ChainHead {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            if state.head.records() > records || state.ended || left.is_zero() {
                return state.head;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
