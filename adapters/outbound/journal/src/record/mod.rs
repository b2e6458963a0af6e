//! One record: a top-level PDE object of six positional fields in at most 1,024 bytes.
//!
//! ```text
//! 91 LL LL                     header: object with two length bytes (little-endian), body length
//! 28 20 <32 bytes>             1 checksum: SHA-256 of the encoded bytes of fields 2 to 6
//! 28 20 <32 bytes>             2 previousChecksum: that of the record before, or SHA-256 of nothing
//! <integer>                    3 sequence, from 1, contiguous
//! <ascii, 1 to 32 bytes>       4 eventType
//! <integer>                    5 eventVersion, from 1
//! 90 LL … | 91 LL LL …         6 payload object, minimal width
//! ```
//!
//! Invariant: the six fields fill the declared length exactly and the whole record, header included,
//! takes at most [`MAX_RECORD_BYTES`] (requirement 000, "Record integrity and bounded readers"). The
//! header is *not* under the hash. It is guarded by the exact fill and by the bound: another length
//! cuts the sixth field, or leaves bytes over, or exceeds the bound, or reaches past the file.

mod encode;
mod read;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use crate::pde;

pub use read::{FramingError, IntegrityError};

pub(crate) use encode::{NotWritten, fit, worst_encoded_len, write};
pub(crate) use read::{HEADER_BYTES, ParseError, framed_len, parse};

/// Most bytes a record takes, its header included.
pub const MAX_RECORD_BYTES: usize = 1_024;

/// The stable short name of an event: 1 to 32 ASCII bytes, never the name of a domain class.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(Cow<'static, str>);

/// The text is not an event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event type is 1 to 32 ASCII characters")]
pub struct InvalidEventType;

/// The persistent version of an event's payload, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventVersion(NonZeroU32);

/// The encoded payload object of a record.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Vec<u8>);

impl EventType {
    /// Most characters an event type has.
    pub const MAX_LEN: usize = 32;

    /// Checks length and characters.
    ///
    /// # Errors
    /// [`InvalidEventType`] for empty, longer or non-ASCII text.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Result<EventType, InvalidEventType> {
        let name = name.into();
        if name.is_ascii() && (1..=EventType::MAX_LEN).contains(&name.len()) {
            Ok(EventType(name))
        } else {
            Err(InvalidEventType)
        }
    }

    /// An event type that is written in the source, checked while it is compiled when it
    /// initializes a `const` or `static`.
    ///
    /// # Panics
    /// Where [`EventType::new`] would refuse the name.
    pub const fn literal(name: &'static str) -> EventType {
        assert!(
            name.is_ascii() && !name.is_empty() && name.len() <= EventType::MAX_LEN,
            "an event type is 1 to 32 ASCII characters"
        );
        EventType(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters come out escaped: a damaged file must not write to an operator's terminal.
impl fmt::Display for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_bytes().escape_ascii().fmt(formatter)
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EventType({self})")
    }
}

impl EventVersion {
    /// The first version.
    pub const ONE: EventVersion = EventVersion(NonZeroU32::MIN);

    /// Any version but 0.
    pub fn new(version: u32) -> Option<EventVersion> {
        NonZeroU32::new(version).map(EventVersion)
    }

    /// The number.
    pub fn value(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for EventVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Payload {
    /// Encodes an object from the values that `fill` writes, in their order.
    ///
    /// # Errors
    /// [`pde::Error`] when `fill` copied in an object that is not canonical, or nested too deep.
    pub fn encode(fill: impl FnOnce(&mut pde::Encoder)) -> Result<Payload, pde::Error> {
        let mut encoder = pde::Encoder::new();
        encoder.object(fill);
        let bytes = encoder.into_bytes();
        pde::check(&bytes)?;
        Ok(Payload(bytes))
    }

    /// The encoded object, its header included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives the encoded object away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Prints the size only; payloads stay out of logs.
impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Payload({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests;
