//! Writes one record behind a chain head.
//!
//! Invariant: fields 2 to 6 are encoded once, where they will stand; the hash covers those very
//! bytes and only then fills field 1.

use domain_core::journal::{ChainHead, Checksum, Sequence};

use super::{EventType, EventVersion, HEADER_BYTES, MAX_RECORD_BYTES};
use crate::pde::code;

/// Why a record was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotWritten {
    /// It would take more than [`MAX_RECORD_BYTES`] at the sequence it was about to get.
    Oversize { sequence: Sequence, size: usize },
    /// The journal holds the last sequence there is.
    Exhausted,
}

/// What a record that fits will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fit {
    pub(crate) sequence: Sequence,
    /// Bytes the record will take, header included.
    pub(crate) size: usize,
}

/// Bytes each of the two checksum fields takes.
const CHECKSUM_FIELD: usize = code::sized_len(Checksum::LENGTH);

/// Bytes a record takes at a given sequence, header included.
pub(crate) const fn encoded_len(
    sequence: Sequence,
    event_type_len: usize,
    version: u32,
    payload_len: usize,
) -> usize {
    HEADER_BYTES
        + 2 * CHECKSUM_FIELD
        + code::int_len(sequence.value())
        + code::sized_len(event_type_len)
        + code::int_len(version as u64)
        + payload_len
}

/// Bytes a record takes at the widest sequence.
pub(crate) const fn worst_encoded_len(
    event_type_len: usize,
    version: u32,
    payload_len: usize,
) -> usize {
    encoded_len(Sequence::LAST, event_type_len, version, payload_len)
}

/// The sequence and size of the record that would follow `head`, when it may.
pub(crate) fn fit(
    head: &ChainHead,
    event_type: &EventType,
    version: EventVersion,
    payload_len: usize,
) -> Result<Fit, NotWritten> {
    let sequence = head.next_sequence().ok_or(NotWritten::Exhausted)?;
    let name_len = event_type.as_str().len();
    let size = encoded_len(sequence, name_len, version.value(), payload_len);
    if size > MAX_RECORD_BYTES {
        return Err(NotWritten::Oversize { sequence, size });
    }
    Ok(Fit { sequence, size })
}

/// Appends to `batch` the record that follows `head`, as [`fit`] allowed it, and returns the head
/// after it.
pub(crate) fn write(
    batch: &mut Vec<u8>,
    head: &ChainHead,
    Fit { sequence, size }: Fit,
    event_type: &EventType,
    version: EventVersion,
    payload: &[u8],
) -> Result<ChainHead, NotWritten> {
    let name = event_type.as_str().as_bytes();
    let start = batch.len();
    let body = size - HEADER_BYTES;
    // The size was bounded by `fit`, so two length bytes hold it.
    let [low, high, ..] = body.to_le_bytes();
    batch.extend_from_slice(&[code::OBJECT_TWO_LENGTH_BYTES, low, high]);

    write_checksum(batch, &Checksum::GENESIS);
    let covered_from = batch.len();
    write_checksum(batch, &head.checksum());
    write_number(batch, sequence.value());
    if name.len() <= code::INLINE_MAX {
        batch.push(code::ASCII_NULL + code::INLINE + name.len() as u8);
    } else {
        batch.extend_from_slice(&[code::ASCII_NULL + code::ONE_LENGTH_BYTE, name.len() as u8]);
    }
    batch.extend_from_slice(name);
    write_number(batch, u64::from(version.value()));
    batch.extend_from_slice(payload);
    debug_assert_eq!(batch.len() - start, size);

    let after = head
        .seal(&batch[covered_from..], size as u64)
        .map_err(|_| NotWritten::Exhausted)?;
    batch[covered_from - Checksum::LENGTH..covered_from]
        .copy_from_slice(after.checksum().as_bytes());
    Ok(after)
}

fn write_checksum(batch: &mut Vec<u8>, checksum: &Checksum) {
    batch.extend_from_slice(&[
        code::BYTES_NULL + code::ONE_LENGTH_BYTE,
        Checksum::LENGTH as u8,
    ]);
    batch.extend_from_slice(checksum.as_bytes());
}

fn write_number(batch: &mut Vec<u8>, number: u64) {
    let width = code::width(number);
    batch.push(code::INT_POSITIVE + (width - 1) as u8);
    batch.extend_from_slice(&number.to_le_bytes()[..width]);
}
