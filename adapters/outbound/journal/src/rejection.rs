//! Why history is refused: which record, where, and by which layer.
//!
//! Invariant: every refusal names its layer, the sequence that was due and the byte offset
//! (requirement 000, "Corrupt history"), and never content.

use std::fmt;
use std::io;

use crate::pde;
use crate::record::{FramingError, IntegrityError};
use crate::schema;

/// The layer that refused a record, from the outside in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// Header, bound and end of file.
    Framing,
    /// Canonical Polymorph Data Encoding.
    Pde,
    /// The six fields, checksum, chain and contiguity.
    Integrity,
    /// Event type, version and payload.
    Schema,
}

/// One record of the file is refused, and with it the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: record {sequence} at byte {offset} is refused", .fault.layer())]
pub struct Rejection {
    /// The sequence that was due at this place.
    pub sequence: u64,
    /// File offset of the record's first byte.
    pub offset: u64,
    /// What is wrong, by layer.
    #[source]
    pub fault: Fault,
}

/// What is wrong with a refused record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Layer `framing`.
    #[error(transparent)]
    Framing(FramingError),
    /// Layer `pde`; the position counts from the record's first byte.
    #[error(transparent)]
    Pde(pde::Error),
    /// Layer `integrity`.
    #[error(transparent)]
    Integrity(IntegrityError),
    /// Layer `schema`.
    #[error(transparent)]
    Schema(schema::Error),
}

/// Reading records failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A record is refused.
    #[error("the journal is refused")]
    Rejected(#[source] Rejection),
    /// The file could not be read.
    #[error("the journal could not be read at byte {offset}")]
    Io {
        /// Offset of the failed read.
        offset: u64,
        /// The operating system's word.
        #[source]
        source: io::Error,
    },
}

impl Layer {
    /// The layer's name in messages and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Framing => "framing",
            Layer::Pde => "pde",
            Layer::Integrity => "integrity",
            Layer::Schema => "schema",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Fault {
    /// The layer that found it.
    pub const fn layer(&self) -> Layer {
        match self {
            Fault::Framing(_) => Layer::Framing,
            Fault::Pde(_) => Layer::Pde,
            Fault::Integrity(_) => Layer::Integrity,
            Fault::Schema(_) => Layer::Schema,
        }
    }
}

impl Rejection {
    /// The layer that refused the record.
    pub const fn layer(&self) -> Layer {
        self.fault.layer()
    }

    /// File offset of the fault itself: inside the record for the PDE layer, else the record's start.
    pub const fn position(&self) -> u64 {
        match &self.fault {
            Fault::Pde(error) => self.offset + error.at as u64,
            _ => self.offset,
        }
    }

    /// Whether the file merely ends inside a record, as an interrupted write leaves it.
    pub const fn is_truncated_tail(&self) -> bool {
        matches!(
            self.fault,
            Fault::Framing(FramingError::TruncatedTail { .. })
        )
    }
}
