//! The single writer's lock, without a runtime.
//!
//! Invariant: dropping a permit, held or awaited, never leaves the lock taken.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
struct Waiting {
    taken: bool,
    wakers: Vec<Waker>,
}

/// Lets one writer in at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteLock(Arc<Mutex<Waiting>>);

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(super) struct WritePermit(WriteLock);

impl WriteLock {
    /// Waits for the right to write.
    pub(super) async fn acquire(&self) -> WritePermit {
        poll_fn(|context| {
            let mut waiting = self.waiting();
            if waiting.taken {
                waiting.wakers.push(context.waker().clone());
                Poll::Pending
            } else {
                waiting.taken = true;
                Poll::Ready(())
            }
        })
        .await;
        WritePermit(self.clone())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WritePermit {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.taken = false;
        for waker in waiting.wakers.drain(..) {
            waker.wake();
        }
    }
}
