//! Rules of the hash-chained journal: sequences, checksums, the chain head and what may follow it.
//!
//! Invariant: a [`ChainHead`] is reached only through [`ChainHead::EMPTY`], [`ChainHead::seal`] and
//! [`ChainHead::accept`], so a head always names the last record of one unbroken chain whose
//! sequences run from 1 without a gap (requirement 000, "Durable authoritative ordering" and
//! "Record integrity"). Nothing here knows files, threads or encodings; the covered bytes arrive as
//! the adapter read or encoded them.

mod chain;
mod checksum;
mod sequence;

pub use chain::{ChainBreak, ChainHead, Link};
pub use checksum::Checksum;
pub use sequence::{Sequence, SequenceOutOfRange};
