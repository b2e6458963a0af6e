//! Independent readers, each with a descriptor and one fixed buffer of 1,024 bytes of its own.
//!
//! Invariant: every record is checked again, through all layers, when it is read. A reader beside a
//! writer never looks past the published head; an offline reader never past the history it
//! validated.

use std::fmt;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain_core::journal::ChainHead;

use crate::error::OpenError;
use crate::place::{Access, Place};
use crate::published::Published;
use crate::rejection::ReadError;
use crate::scan::{self, Record, Scanner, Schemas};

/// Reads beside the writer, up to the published head. It outlives the journal it came from.
pub struct Reader {
    scanner: Scanner<File>,
    published: Arc<Published>,
}

/// Reads a journal that nobody writes, under a shared lock.
pub struct OfflineReader {
    scanner: Scanner<File>,
    end: ChainHead,
}

impl Reader {
    pub(crate) fn new(file: File, schemas: Schemas, published: Arc<Published>) -> Reader {
        Reader {
            scanner: Scanner::new(file, schemas),
            published,
        }
    }

    /// The next record, or `None` at the published head; later calls see a later head.
    ///
    /// # Errors
    /// [`ReadError`]. The reader does not move past a refused record.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        let limit = self.published.head().end_offset();
        self.scanner.next(limit)
    }

    /// Blocks until there is a next record, or the journal ended, or `patience` is over, and says
    /// whether there is one. Not for async tasks.
    pub fn wait_for_next(&self, patience: Duration) -> bool {
        let read = self.position().records();
        self.published.wait_beyond(read, patience).records() > read
    }

    /// Head after the last record read.
    pub fn position(&self) -> ChainHead {
        self.scanner.head()
    }
}

impl OfflineReader {
    /// Opens and validates a journal without writing to it.
    ///
    /// The file is locked shared: readers may be several, and while a writer holds the file it is
    /// refused with [`OpenError::Locked`]. Nothing is synced, so this says what the file holds now,
    /// not that it will survive a loss of power.
    ///
    /// # Errors
    /// [`OpenError`], as for [`crate::Journal::open`].
    pub fn open(path: &Path, schemas: Schemas) -> Result<OfflineReader, OpenError> {
        let Place { file, .. } = Place::open(path, Access::Read)?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(OpenError::Lock {
                    path: path.to_owned(),
                    source,
                });
            }
        }
        let end = scan::validate(&file, schemas.clone()).map_err(|source| OpenError::History {
            path: path.to_owned(),
            source,
        })?;
        Ok(OfflineReader {
            scanner: Scanner::new(file, schemas),
            end,
        })
    }

    /// The next record, or `None` at the end of the validated history.
    ///
    /// # Errors
    /// [`ReadError`], when the file changed under its lock or cannot be read.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        self.scanner.next(self.end.end_offset())
    }

    /// Where the validated history ends.
    pub fn head(&self) -> ChainHead {
        self.end
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OfflineReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OfflineReader")
            .field("head", &self.end)
            .finish_non_exhaustive()
    }
}
