//! What becomes of an append, and how its caller learns of it.
//!
//! Invariant: every append ends in exactly one [`AppendOutcome`], whatever happens to the writer
//! thread; `Committed` means synced, and what is not known is `Uncertain`, never a failure. Dropping
//! an [`Append`] withdraws nothing.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use domain_core::journal::Sequence;

use crate::record::{EventType, EventVersion, Payload};
use crate::schema;

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The event's stable name.
    pub event_type: EventType,
    /// The payload's persistent version.
    pub version: EventVersion,
    /// The encoded payload object.
    pub payload: Payload,
}

/// How an append ended.
#[derive(Debug)]
#[must_use = "an append that is not looked at may have been refused"]
pub enum AppendOutcome {
    /// The record is written and synced, and readers see it.
    Committed {
        /// Its place in the journal.
        sequence: Sequence,
    },
    /// The record was not written and took no sequence. The journal goes on.
    Refused(Refusal),
    /// The record's batch failed while it was written or synced. Whether the record is in the file
    /// is unknown until a next process opens it. The journal is latched.
    Uncertain(Arc<CommitFailure>),
    /// The journal was latched before the record's turn. The record was not written.
    Latched(Arc<CommitFailure>),
}

/// Why a record was refused before it took a sequence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The registry does not know the event, or its codec refuses the payload.
    #[error("the journal's registry refuses the record")]
    Schema(#[source] schema::Error),
    /// The record would take more than [`crate::MAX_RECORD_BYTES`] at the sequence due.
    #[error("record {sequence} would take {size} bytes, more than 1024")]
    Oversize {
        /// The sequence the record would have got.
        sequence: Sequence,
        /// Bytes it would take at that sequence, header included.
        size: usize,
    },
    /// As many records wait as [`crate::Limits`] allows.
    #[error("the append queue is full")]
    QueueFull,
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
    /// The journal holds the last possible sequence.
    #[error("no sequence is left")]
    Exhausted,
}

/// The failure that latched a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitFailure {
    /// A write failed.
    #[error("a write of {bytes} bytes at {offset} failed")]
    Write {
        /// File offset of the batch.
        offset: u64,
        /// Size of the batch.
        bytes: usize,
        /// The operating system's word.
        #[source]
        source: io::Error,
    },
    /// A write took only a part, as on a full disk.
    #[error("a write at {offset} took {written} of {bytes} bytes")]
    ShortWrite {
        /// File offset of the batch.
        offset: u64,
        /// Size of the batch.
        bytes: usize,
        /// Bytes taken.
        written: usize,
    },
    /// A sync failed.
    #[error("a sync failed")]
    Sync(#[source] io::Error),
    /// The writer thread came to an end in the middle of its work.
    #[error("the writer thread ended unexpectedly")]
    WriterEnded,
}

/// An append under way: a future, or [`Append::wait`] for threads.
#[must_use = "the record is appended either way, but only this says how it ended"]
pub struct Append {
    slot: Arc<Slot>,
}

/// Takes the outcome of one append to whoever asked for it.
pub(crate) struct Ticket {
    answer: Option<Box<dyn FnOnce(AppendOutcome) + Send>>,
}

#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    answered: Condvar,
}

#[derive(Default)]
struct SlotState {
    outcome: Option<AppendOutcome>,
    waker: Option<Waker>,
}

impl Append {
    /// A pending append and the ticket that ends it.
    pub(crate) fn pending() -> (Append, Ticket) {
        let slot = Arc::new(Slot::default());
        let filled = Arc::clone(&slot);
        let ticket = Ticket::new(move |outcome| filled.fill(outcome));
        (Append { slot }, ticket)
    }

    /// Blocks the calling thread until the append ended. Not for async tasks.
    pub fn wait(self) -> AppendOutcome {
        let mut state = self.slot.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self
                .slot
                .answered
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Append {
    type Output = AppendOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AppendOutcome> {
        let mut state = self.slot.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    empty => *empty = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Append {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Append").finish_non_exhaustive()
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, outcome: AppendOutcome) {
        let waker = {
            let mut state = self.lock();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        self.answered.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ticket {
    pub(crate) fn new(answer: impl FnOnce(AppendOutcome) + Send + 'static) -> Ticket {
        Ticket {
            answer: Some(Box::new(answer)),
        }
    }

    pub(crate) fn answer(mut self, outcome: AppendOutcome) {
        self.deliver(outcome);
    }

    fn deliver(&mut self, outcome: AppendOutcome) {
        if let Some(answer) = self.answer.take() {
            // A panic of one caller's callback must not cost the others their answers. The panic
            // hook has reported it by then.
            _ = catch_unwind(AssertUnwindSafe(move || answer(outcome)));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.answer.is_some() {
            let failure = Arc::new(CommitFailure::WriterEnded);
            self.deliver(AppendOutcome::Uncertain(failure));
        }
    }
}
