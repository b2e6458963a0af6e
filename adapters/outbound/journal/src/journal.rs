//! One journal file, open for appending.
//!
//! Invariant: a journal exists only after its file and directory were synced, in that order, and
//! then its whole history passed every layer; so what readers are shown was on the disk before.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use domain_core::journal::ChainHead;

use crate::append::{Append, AppendOutcome, CommitFailure, NewRecord, Refusal, Ticket};
use crate::claim::Claim;
use crate::error::OpenError;
use crate::limits::Limits;
use crate::place::{Access, Location, Place};
use crate::published::Published;
use crate::reader::Reader;
use crate::scan::{self, Schemas};
use crate::schema::Registry;
use crate::storage::{FileStorage, Storage};
use crate::writer::{Pending, Queue, Writer};

/// A hash-chained journal with its writer thread. Share it as `Arc<Journal>`.
///
/// Dropping it, or [`Journal::close`], commits what was appended before and gives the file free.
pub struct Journal {
    queue: Arc<Queue>,
    published: Arc<Published>,
    registry: Arc<Registry>,
    location: Location,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Opens a journal, or creates an empty one, and validates its whole history.
    ///
    /// Opening writes nothing to an existing file, so it works on a full disk.
    ///
    /// # Errors
    /// [`OpenError`]. A file that ends inside a record is refused as a truncated tail and never
    /// repaired. A file cut exactly between two records opens shorter: a chain cannot see that its
    /// end was removed.
    pub fn open(
        path: &Path,
        registry: Arc<Registry>,
        limits: Limits,
    ) -> Result<Journal, OpenError> {
        Journal::open_with_storage(path, registry, limits, |storage| Box::new(storage))
    }

    /// Like [`Journal::open`], with something around the file that the writer writes to.
    ///
    /// # Errors
    /// As for [`Journal::open`].
    pub fn open_with_storage(
        path: &Path,
        registry: Arc<Registry>,
        limits: Limits,
        wrap: impl FnOnce(FileStorage) -> Box<dyn Storage>,
    ) -> Result<Journal, OpenError> {
        let Place { file, location } = Place::open(path, Access::Write)?;
        let file = Arc::new(file);
        let directory = location.directory()?;
        let claim = Claim::take(path, location.identity, Arc::clone(&file))?;
        let mut storage = wrap(FileStorage::new(Arc::clone(&file), directory));

        // What sits in the page cache only would validate, be shown and then be lost, and its
        // sequences given out again. A failed sync leaves pages marked clean, so a second try would
        // succeed without having written them: the file is latched instead.
        let synced = storage.sync_all().and_then(|()| storage.sync_directory());
        if let Err(source) = synced {
            claim.latch();
            return Err(OpenError::Sync {
                path: path.to_owned(),
                source,
            });
        }
        let schemas = Schemas::Registry(Arc::clone(&registry));
        let head = scan::validate(&file, schemas).map_err(|source| OpenError::History {
            path: path.to_owned(),
            source,
        })?;

        let queue = Arc::new(Queue::new(limits));
        let published = Arc::new(Published::new(head));
        let writer = Writer::new(claim, storage, Arc::clone(&queue), Arc::clone(&published));
        let thread = thread::Builder::new()
            .name("journal-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(OpenError::Thread)?;
        Ok(Journal {
            queue,
            published,
            registry,
            location,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Appends a record. The schema is checked before this returns; the rest is the writer's.
    ///
    /// Dropping the returned future withdraws nothing.
    pub fn append(&self, record: NewRecord) -> Append {
        let (append, ticket) = Append::pending();
        self.submit(record, ticket);
        append
    }

    /// Appends a record and calls back with its outcome: on the writer thread, which waits for the
    /// callback's return, or on this one when the record is refused at once. A callback should be
    /// brief and must not wait for another append.
    pub fn append_with(
        &self,
        record: NewRecord,
        on_outcome: impl FnOnce(AppendOutcome) + Send + 'static,
    ) {
        self.submit(record, Ticket::new(on_outcome));
    }

    /// Where the journal stands: everything before is synced and readable.
    pub fn head(&self) -> ChainHead {
        self.published.head()
    }

    /// Blocks until the journal holds more than `records` records, ended, or `patience` is over, and
    /// returns the head at that moment. Not for async tasks.
    pub fn wait_beyond(&self, records: u64, patience: Duration) -> ChainHead {
        self.published.wait_beyond(records, patience)
    }

    /// The failure that latched the journal, if one did. A latched journal takes no more records;
    /// what was published before stays readable.
    pub fn failure(&self) -> Option<Arc<CommitFailure>> {
        self.queue.failure()
    }

    /// A reader from the first record on, with a descriptor and a buffer of its own.
    ///
    /// # Errors
    /// [`OpenError::Open`] when the file is gone from its path or another lies there.
    pub fn reader(&self) -> Result<Reader, OpenError> {
        let file = self.location.reopen()?;
        let schemas = Schemas::Registry(Arc::clone(&self.registry));
        Ok(Reader::new(file, schemas, Arc::clone(&self.published)))
    }

    /// Takes no more records, commits those taken, gives the file free and returns when all of that
    /// is done. Called from an append's callback it returns at once.
    pub fn close(&self) {
        self.queue.close();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the writer has latched the journal; there is nothing to add here.
            _ = thread.join();
        }
    }

    fn submit(&self, record: NewRecord, ticket: Ticket) {
        let checked = self.registry.validate(
            record.event_type.as_str(),
            record.version.value(),
            record.payload.as_bytes(),
        );
        match checked {
            Ok(()) => self.queue.push(Pending::new(record, ticket)),
            Err(error) => ticket.answer(AppendOutcome::Refused(Refusal::Schema(error))),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Journal")
            .field("path", &self.location.path)
            .field("head", &self.head())
            .finish_non_exhaustive()
    }
}
