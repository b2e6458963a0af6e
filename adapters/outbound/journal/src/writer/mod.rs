//! The one thread that writes a journal: group commit.
//!
//! A round drains the queue, refuses what must be refused, encodes and chains the rest, writes it
//! with one positioned write, syncs once, publishes the head and answers. While a sync runs the next
//! batch gathers, so the disk's own speed sets the batch size; no timer is involved.
//!
//! Invariant: a head is published only after its bytes were synced. A failed, short or interrupted
//! step ends the writer: its batch is `Uncertain`, what still waits is `Latched` and never written,
//! and nothing is retried, repaired or truncated.

mod queue;

use std::sync::Arc;

use domain_core::journal::{ChainHead, Sequence};

use crate::append::{AppendOutcome, CommitFailure, Refusal, Ticket};
use crate::claim::Claim;
use crate::published::Published;
use crate::record::{self, NotWritten};
use crate::storage::Storage;

pub(crate) use queue::{Pending, Queue};

pub(crate) struct Writer {
    claim: Claim,
    storage: Box<dyn Storage>,
    queue: Arc<Queue>,
    published: Arc<Published>,
    head: ChainHead,
    batch: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(
        claim: Claim,
        storage: Box<dyn Storage>,
        queue: Arc<Queue>,
        published: Arc<Published>,
    ) -> Writer {
        let head = published.head();
        Writer {
            claim,
            storage,
            queue,
            published,
            head,
            batch: Vec::new(),
        }
    }

    /// Commits batches until the queue is closed and empty, or a commit fails.
    pub(crate) fn run(mut self) {
        while let Some(pending) = self.queue.next_batch() {
            let (head, tickets) = self.encode(pending);
            if tickets.is_empty() {
                continue;
            }
            match self.store() {
                Ok(()) => {
                    self.head = head;
                    self.published.publish(head);
                    for (ticket, sequence) in tickets {
                        ticket.answer(AppendOutcome::Committed { sequence });
                    }
                }
                Err(failure) => {
                    let failure = Arc::new(failure);
                    let waiting = self.latch(&failure);
                    for (ticket, _) in tickets {
                        ticket.answer(AppendOutcome::Uncertain(Arc::clone(&failure)));
                    }
                    for pending in waiting {
                        let failure = Arc::clone(&failure);
                        pending.ticket.answer(AppendOutcome::Latched(failure));
                    }
                    return;
                }
            }
        }
    }

    /// Fills the batch behind the head; answers what is refused and returns who waits for the rest.
    fn encode(&mut self, pending: Vec<Pending>) -> (ChainHead, Vec<(Ticket, Sequence)>) {
        self.batch.clear();
        let mut head = self.head;
        let mut tickets = Vec::with_capacity(pending.len());
        for record in pending {
            let fit = record::fit(
                &head,
                &record.event_type,
                record.version,
                record.payload_len,
            );
            let written = fit.and_then(|fit| {
                let after = record::write(
                    &mut self.batch,
                    &head,
                    fit,
                    &record.event_type,
                    record.version,
                    &record.payload,
                )?;
                Ok((after, fit.sequence))
            });
            match written {
                Ok((after, sequence)) => {
                    head = after;
                    tickets.push((record.ticket, sequence));
                }
                Err(refused) => record.ticket.answer(AppendOutcome::Refused(match refused {
                    NotWritten::Oversize { sequence, size } => Refusal::Oversize { sequence, size },
                    NotWritten::Exhausted => Refusal::Exhausted,
                })),
            }
        }
        (head, tickets)
    }

    fn store(&mut self) -> Result<(), CommitFailure> {
        let (offset, bytes) = (self.head.end_offset(), self.batch.len());
        let written = self
            .storage
            .write_at(&self.batch, offset)
            .map_err(|source| CommitFailure::Write {
                offset,
                bytes,
                source,
            })?;
        if written != bytes {
            return Err(CommitFailure::ShortWrite {
                offset,
                bytes,
                written,
            });
        }
        self.storage.sync_data().map_err(CommitFailure::Sync)
    }

    /// Fails the journal closed and returns what will never be written.
    fn latch(&mut self, failure: &Arc<CommitFailure>) -> Vec<Pending> {
        // The file first: from the moment a caller can learn of the failure, no open succeeds.
        self.claim.latch();
        self.queue.latch(failure)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failure = Arc::new(CommitFailure::WriterEnded);
            for pending in self.latch(&failure) {
                let failure = Arc::clone(&failure);
                pending.ticket.answer(AppendOutcome::Latched(failure));
            }
        }
        self.published.end();
    }
}
