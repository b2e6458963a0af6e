//! A hash-chained journal in one file: append-only, synced before it answers, validated whole when
//! it opens. With the feature `broker` also the embedded broker.
//!
//! Without features the crate is a library of its own. A journal is a file of records
//! (at most [`MAX_RECORD_BYTES`] each, canonical PDE, chained by SHA-256) with one writer and any
//! number of readers:
//!
//! - [`Journal`] holds the file exclusively and appends with group commit. An append ends in exactly
//!   one [`AppendOutcome`]; committed, refused, uncertain and latched are apart.
//! - [`Reader`] reads beside the writer up to the published head, [`OfflineReader`] a file nobody
//!   writes.
//! - [`Registry`] holds the codecs of the file's events. The journal constructs none.
//!
//! # What is promised, and what is not
//!
//! `Committed` means that the record's batch was written and that `fdatasync` returned success for
//! it. A write or sync that fails, or takes less than it was given, latches the file for the life of
//! the process: nothing is retried, repaired or truncated, and what became of that batch is unknown
//! until another process opens the file.
//!
//! Opening syncs the file and its directory, then validates every record. Two things this does not
//! see. After an *earlier process's* failed sync the kernel may have marked pages clean that never
//! reached the disk; the history then validates from the page cache and is lost with the power.
//! Reading the last batch back past the cache (`O_DIRECT`) is not done yet. And a chain cannot show
//! that whole records were removed from its end: such a file opens, shorter. A file that ends
//! *inside* a record is refused, naming the layer (`framing`: truncated tail) and the offset.
//!
//! Invariant: the module boundaries are the layers. [`pde`] knows no records, records know no files,
//! files know no events, and the chain's rules are [`domain_core::journal`]'s.
#![forbid(unsafe_code)]

#[cfg(feature = "broker")]
pub mod broker;
pub mod pde;
pub mod schema;

mod append;
mod claim;
mod error;
mod journal;
mod limits;
mod place;
mod published;
mod reader;
mod record;
mod rejection;
mod scan;
mod storage;
mod writer;

pub use append::{Append, AppendOutcome, CommitFailure, NewRecord, Refusal};
pub use error::OpenError;
pub use journal::Journal;
pub use limits::{InvalidLimit, Limits};
pub use reader::{OfflineReader, Reader};
pub use record::{
    EventType, EventVersion, FramingError, IntegrityError, InvalidEventType, MAX_RECORD_BYTES,
    Payload,
};
pub use rejection::{Fault, Layer, ReadError, Rejection};
pub use scan::{Record, Schemas};
pub use schema::{Codec, Registry};
pub use storage::{FileStorage, Storage};
