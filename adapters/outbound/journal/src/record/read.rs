//! Takes one record apart: first its frame, then its PDE, then the shape of its six fields.
//!
//! Invariant: the layers are checked in this order and never mixed. A frame that declares too much
//! or is cut is refused before any field is decoded (requirement 000, "Record integrity and bounded
//! readers"), and nothing is handed on of a record that fails.

use domain_core::journal::{ChainBreak, Checksum, Link};

use super::{EventType, EventVersion, MAX_RECORD_BYTES};
use crate::pde::{self, Reader, Value, code};

/// Bytes of a record's own header: the object code and two length bytes.
pub(crate) const HEADER_BYTES: usize = 3;

/// The bytes at a record's place do not frame a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The file ends inside a record, as an interrupted write leaves it.
    #[error("truncated tail: the record needs {needed} bytes and {present} are there")]
    TruncatedTail {
        /// Bytes the record takes, or a header's when not even that is there.
        needed: usize,
        /// Bytes there are from the record's start to the end.
        present: usize,
    },
    /// The first byte is not the code of an object with two length bytes.
    #[error("a record starts with code 145, not {0}")]
    NotARecord(u8),
    /// The header declares more than the bound.
    #[error("the record declares {declared} bytes, more than 1024")]
    TooLong {
        /// Bytes the whole record would take.
        declared: usize,
    },
}

/// The record is framed canonical PDE but not one intact link of this journal's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegrityError {
    /// One of the six fields is missing or not of its kind or range.
    #[error("field {name} is not {expected}")]
    Field {
        /// The field's name in the format.
        name: &'static str,
        /// What the format asks for.
        expected: &'static str,
    },
    /// More than six fields.
    #[error("a record has six fields and this one has more")]
    ExtraField,
    /// Checksum, predecessor or sequence do not continue the chain.
    #[error("the chain is broken")]
    Chain(#[source] ChainBreak),
}

/// A framed record's fields, as stored.
#[derive(Debug)]
pub(crate) struct Parsed<'a> {
    pub(crate) link: Link<'a>,
    pub(crate) event_type: &'a str,
    pub(crate) event_version: u32,
    /// The payload object, its header included.
    pub(crate) payload: &'a [u8],
}

/// Why a framed record could not be taken apart.
#[derive(Debug)]
pub(crate) enum ParseError {
    Pde(pde::Error),
    Integrity(IntegrityError),
}

/// Bytes the record takes whose first bytes are `available`; `at_end` when the source holds no more.
///
/// `Ok(None)` asks for more bytes.
pub(crate) fn framed_len(available: &[u8], at_end: bool) -> Result<Option<usize>, FramingError> {
    let truncated = |needed| {
        let present = available.len();
        if present >= needed {
            Ok(Some(needed))
        } else if at_end {
            Err(FramingError::TruncatedTail { needed, present })
        } else {
            Ok(None)
        }
    };
    if let Some(&first) = available.first()
        && first != code::OBJECT_TWO_LENGTH_BYTES
    {
        return Err(FramingError::NotARecord(first));
    }
    let [_, low, high, ..] = *available else {
        return truncated(HEADER_BYTES);
    };
    let declared = HEADER_BYTES + usize::from(u16::from_le_bytes([low, high]));
    if declared > MAX_RECORD_BYTES {
        return Err(FramingError::TooLong { declared });
    }
    truncated(declared)
}

/// Takes a whole framed record apart. Offsets in errors count from the record's first byte.
pub(crate) fn parse(record: &[u8]) -> Result<Parsed<'_>, ParseError> {
    let body = &record[HEADER_BYTES..];
    // The PDE layer goes first and alone, so that no field is believed of a body that is not PDE.
    pde::check_nested(Reader::nested(body, HEADER_BYTES)).map_err(ParseError::Pde)?;

    let mut fields = Reader::nested(body, HEADER_BYTES);
    let checksum = checksum(&mut fields, "checksum")?;
    let covered = &body[fields.position()..];
    let previous = self::checksum(&mut fields, "previousChecksum")?;
    let sequence = match field(&mut fields)? {
        Some(Value::Int(Some(integer))) => integer.as_u64(),
        _ => None,
    }
    .ok_or(shape("sequence", "a positive integer"))?;
    let event_type = match field(&mut fields)? {
        Some(Value::Ascii(Some(text))) => Some(text.as_str()),
        _ => None,
    }
    .filter(|text| (1..=EventType::MAX_LEN).contains(&text.len()))
    .ok_or(shape("eventType", "ASCII of 1 to 32 bytes"))?;
    let event_version = match field(&mut fields)? {
        Some(Value::Int(Some(integer))) => integer.as_u64(),
        _ => None,
    }
    .and_then(|version| u32::try_from(version).ok())
    .and_then(EventVersion::new)
    .ok_or(shape("eventVersion", "an integer of 1 to 4294967295"))?;
    let payload_from = fields.position();
    let Some(Value::Object(Some(_))) = field(&mut fields)? else {
        return Err(shape("payload", "an object"));
    };
    let payload = &body[payload_from..fields.position()];
    if !fields.is_at_end() {
        return Err(ParseError::Integrity(IntegrityError::ExtraField));
    }
    Ok(Parsed {
        link: Link {
            checksum,
            previous,
            sequence,
            covered,
            length: record.len() as u64,
        },
        event_type,
        event_version: event_version.value(),
        payload,
    })
}

fn field<'a>(fields: &mut Reader<'a>) -> Result<Option<Value<'a>>, ParseError> {
    if fields.is_at_end() {
        return Ok(None);
    }
    fields.value().map(Some).map_err(ParseError::Pde)
}

fn checksum(fields: &mut Reader<'_>, name: &'static str) -> Result<Checksum, ParseError> {
    match field(fields)? {
        Some(Value::Bytes(Some(bytes))) => bytes.try_into().ok().map(Checksum::from_bytes),
        _ => None,
    }
    .ok_or(shape(name, "32 bytes"))
}

fn shape(name: &'static str, expected: &'static str) -> ParseError {
    ParseError::Integrity(IntegrityError::Field { name, expected })
}
