//! Walks a journal front to back through one fixed buffer of 1,024 bytes that is refilled.
//!
//! Invariant: a record is handed out only after framing, PDE, integrity (checksum, chain,
//! contiguity) and schema held, in that order, and no byte at or past the caller's limit is read.
//! After a refusal the scanner stays where it is and refuses again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use domain_core::journal::{ChainBreak, ChainHead, Sequence};

use crate::record::{self, IntegrityError, MAX_RECORD_BYTES, ParseError};
use crate::rejection::{Fault, ReadError, Rejection};
use crate::schema::Registry;

/// How far the schema layer is checked.
#[derive(Clone, Debug)]
pub enum Schemas {
    /// Event types, versions and payloads must satisfy this registry.
    Registry(Arc<Registry>),
    /// Framing, PDE and chain only. A journal that is written to is never opened this way.
    Unchecked,
}

/// One record that passed every layer. It borrows the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place in the journal, from 1.
    pub sequence: Sequence,
    /// File offset of its first byte.
    pub offset: u64,
    /// The event's stable name.
    pub event_type: &'a str,
    /// The payload's persistent version.
    pub event_version: u32,
    /// The encoded payload object, its header included.
    pub payload: &'a [u8],
}

/// Bytes at offsets, shared by files and test images.
pub(crate) trait Source {
    /// Reads at most `buffer.len()` bytes; 0 means that the source ends here.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buffer, offset)
    }
}

pub(crate) struct Scanner<S> {
    source: S,
    schemas: Schemas,
    head: ChainHead,
    buffer: Box<[u8; MAX_RECORD_BYTES]>,
    // The bytes of the file from the head's end offset on that are in the buffer.
    start: usize,
    end: usize,
}

impl<S: Source> Scanner<S> {
    pub(crate) fn new(source: S, schemas: Schemas) -> Scanner<S> {
        Scanner {
            source,
            schemas,
            head: ChainHead::EMPTY,
            buffer: Box::new([0; MAX_RECORD_BYTES]),
            start: 0,
            end: 0,
        }
    }

    /// Head after the last record handed out.
    pub(crate) fn head(&self) -> ChainHead {
        self.head
    }

    /// Reads on through `limit` and returns the head reached.
    pub(crate) fn run(&mut self, limit: u64) -> Result<ChainHead, ReadError> {
        while self.next(limit)?.is_some() {}
        Ok(self.head)
    }

    /// The next record that ends at or before `limit`; `None` when the head stands there.
    pub(crate) fn next(&mut self, limit: u64) -> Result<Option<Record<'_>>, ReadError> {
        let offset = self.head.end_offset();
        if offset >= limit {
            return Ok(None);
        }
        let length = self.frame(limit)?;
        let record = &self.buffer[self.start..self.start + length];
        let reject = |fault| {
            ReadError::Rejected(Rejection {
                sequence: self.head.records() + 1,
                offset,
                fault,
            })
        };
        let parsed = record::parse(record).map_err(|error| {
            reject(match error {
                ParseError::Pde(error) => Fault::Pde(error),
                ParseError::Integrity(error) => Fault::Integrity(error),
            })
        })?;
        let broken = |source| reject(Fault::Integrity(IntegrityError::Chain(source)));
        let sequence = self.head.next_sequence().ok_or(ChainBreak::Exhausted);
        let sequence = sequence.map_err(broken)?;
        let head = self.head.accept(&parsed.link).map_err(broken)?;
        if let Schemas::Registry(registry) = &self.schemas {
            registry
                .validate(parsed.event_type, parsed.event_version, parsed.payload)
                .map_err(|error| reject(Fault::Schema(error)))?;
        }
        self.head = head;
        self.start += length;
        Ok(Some(Record {
            sequence,
            offset,
            event_type: parsed.event_type,
            event_version: parsed.event_version,
            payload: parsed.payload,
        }))
    }

    /// Brings the whole next record into the buffer and returns its length.
    fn frame(&mut self, limit: u64) -> Result<usize, ReadError> {
        let mut at_end = false;
        loop {
            let available = &self.buffer[self.start..self.end];
            match record::framed_len(available, at_end) {
                Ok(Some(length)) => return Ok(length),
                Ok(None) => at_end = !self.refill(limit)?,
                Err(fault) => {
                    return Err(ReadError::Rejected(Rejection {
                        sequence: self.head.records() + 1,
                        offset: self.head.end_offset(),
                        fault: Fault::Framing(fault),
                    }));
                }
            }
        }
    }

    /// Moves what is left to the front and reads behind it; `false` when nothing more is there.
    fn refill(&mut self, limit: u64) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let offset = self.head.end_offset() + self.end as u64;
        let room = (MAX_RECORD_BYTES - self.end) as u64;
        let wanted = room.min(limit.saturating_sub(offset)) as usize;
        if wanted == 0 {
            return Ok(false);
        }
        let target = &mut self.buffer[self.end..self.end + wanted];
        let read = loop {
            match self.source.read_at(target, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset, source }),
                Ok(read) => break read,
            }
        };
        self.end += read;
        Ok(read > 0)
    }
}

/// Walks a whole file. Its length is taken once: bytes that appear later are not history.
pub(crate) fn validate(file: &File, schemas: Schemas) -> Result<ChainHead, ReadError> {
    let length = file
        .metadata()
        .map_err(|source| ReadError::Io { offset: 0, source })?
        .len();
    Scanner::new(file, schemas).run(length)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
