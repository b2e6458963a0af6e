//! Writes one record behind a chain head.
//!
//! Invariant: fields 2 to 6 are encoded once, where they will stand; the hash covers those very
//! bytes and only then fills field 1.

use domain_core::journal::{ChainHead, Checksum, Sequence};

use super::{EventType, EventVersion, HEADER_BYTES, MAX_RECORD_BYTES, Payload};
use crate::pde::code;

/// A record that would take more than [`MAX_RECORD_BYTES`] at its real sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oversize {
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

/// Appends the record that follows `head`, with `sequence` as the head's next one, to `batch`.
///
/// Returns the head after it. On [`Oversize`] the batch is as it was.
pub(crate) fn write(
    batch: &mut Vec<u8>,
    head: &ChainHead,
    sequence: Sequence,
    event_type: &EventType,
    version: EventVersion,
    payload: &Payload,
) -> Result<ChainHead, Oversize> {
    let name = event_type.as_str().as_bytes();
    let payload = payload.as_bytes();
    let size = encoded_len(sequence, name.len(), version.value(), payload.len());
    if size > MAX_RECORD_BYTES {
        return Err(Oversize { size });
    }
    let start = batch.len();
    let body = size - HEADER_BYTES;
    // The size was just bounded, so two length bytes hold it.
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
        .unwrap_or(*head);
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
