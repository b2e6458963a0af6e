//! The type codes, from the specification's code table (its prose ranges are off by one).
//!
//! Invariant: each constant is the first or only code of its kind; a code plus a width or length
//! stays inside the kind's range.

pub(crate) const BOOL_NULL: u8 = 0;
pub(crate) const BOOL_TRUE: u8 = 1;
pub(crate) const BOOL_FALSE: u8 = 2;

pub(crate) const INT_NULL: u8 = 3;
/// Positive integer of one byte; the following seven codes are the wider ones.
pub(crate) const INT_POSITIVE: u8 = 4;
/// Negative integer of one byte; the following seven codes are the wider ones.
pub(crate) const INT_NEGATIVE: u8 = 12;

pub(crate) const FLOAT_NULL: u8 = 20;
pub(crate) const FLOAT_4: u8 = 21;
pub(crate) const FLOAT_8: u8 = 22;

pub(crate) const BYTES_NULL: u8 = 23;
pub(crate) const ASCII_NULL: u8 = 48;
pub(crate) const UTF8_NULL: u8 = 73;

/// From a null code of bytes or text to the code of an empty body.
pub(crate) const INLINE: u8 = 1;
/// Largest body whose length is in the code itself.
pub(crate) const INLINE_MAX: usize = 15;
/// From a null code of bytes or text to the code with one length byte.
pub(crate) const ONE_LENGTH_BYTE: u8 = 17;

pub(crate) const UTC_NULL: u8 = 98;
/// UTC body of two bytes; the following eight codes are the longer ones.
pub(crate) const UTC_2: u8 = 99;

pub(crate) const OBJECT_NULL: u8 = 143;
/// Object with one length byte; the following seven codes have more.
pub(crate) const OBJECT: u8 = 144;
/// Object with two length bytes: the header code of every record.
pub(crate) const OBJECT_TWO_LENGTH_BYTES: u8 = 145;

/// Bytes an unsigned number takes at its minimal width, 1 to 8.
pub(crate) const fn width(value: u64) -> usize {
    let significant = (u64::BITS - value.leading_zeros()) as usize;
    if significant == 0 {
        1
    } else {
        significant.div_ceil(8)
    }
}

/// Bytes a body of bytes or text takes, type code and length bytes included.
pub(crate) const fn sized_len(body: usize) -> usize {
    if body <= INLINE_MAX {
        1 + body
    } else {
        1 + width(body as u64) + body
    }
}

/// Bytes an object takes, type code and length bytes included.
#[cfg(feature = "broker")]
pub(crate) const fn object_len(body: usize) -> usize {
    1 + width(body as u64) + body
}

/// Bytes an integer takes whose stored body is `body`.
pub(crate) const fn int_len(body: u64) -> usize {
    1 + width(body)
}
