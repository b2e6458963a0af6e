//! Polymorph Data Encoding: the canonical subset in which journal records are written.
//!
//! A value is one type byte, optional length bytes and a body; integers and lengths are
//! little-endian and a length counts only the body. The public specification (jjenkov/polymorph,
//! `specifications/pde-specification.md`) has no canonical form, so this module defines one and
//! refuses the rest: every integer and every length takes its minimal width, objects hold values
//! without keys, and copy, reference, key, table, metadata, extension and unassigned codes do not
//! occur. The one width that is not minimal, the two length bytes of a record's own header, belongs
//! to the framing layer.
//!
//! Invariant: [`Encoder`] and [`Reader`] are inverse. What one writes the other reads as the same
//! value, and what the reader accepts the encoder writes back byte for byte. A float keeps its width
//! and its bits (their width is part of the value), and the body of a UTC value is carried, not
//! interpreted: both may stand in a payload, and a schema says what they mean.

pub(crate) mod code;
mod encode;
mod read;

pub use encode::Encoder;
pub use read::{Error, ErrorKind, MAX_DEPTH, Reader, check};

pub(crate) use read::check_nested;

/// One value as it stands in encoded bytes. `None` is the typed null of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Codes 0 to 2.
    Bool(Option<bool>),
    /// Codes 3 to 19.
    Int(Option<Integer>),
    /// Codes 20 to 22.
    Float(Option<Float>),
    /// Codes 23 to 47.
    Bytes(Option<&'a [u8]>),
    /// Codes 48 to 72.
    Ascii(Option<Ascii<'a>>),
    /// Codes 73 to 97.
    Utf8(Option<&'a str>),
    /// Codes 98 to 107.
    Utc(Option<Utc<'a>>),
    /// Codes 143 to 151.
    Object(Option<Object<'a>>),
}

/// An integer of up to eight stored bytes and a sign of its own: −2^64 to 2^64−1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    negative: bool,
    // The value when it is not negative, else its absolute value less one.
    body: u64,
}

/// A float of four or eight bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Float {
    /// Code 21.
    Four(f32),
    /// Code 22.
    Eight(f64),
}

/// Text of ASCII characters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ascii<'a>(&'a str);

/// The uninterpreted body of a UTC value, 2 to 10 bytes; the length says which parts it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc<'a>(&'a [u8]);

/// The body of an object: its values one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a> {
    body: &'a [u8],
    at: usize,
}

impl Integer {
    fn from_parts(negative: bool, body: u64) -> Integer {
        Integer { negative, body }
    }

    /// The value when a signed 64-bit integer holds it.
    pub fn as_i64(self) -> Option<i64> {
        let body = i64::try_from(self.body).ok()?;
        Some(if self.negative { -1 - body } else { body })
    }

    /// The value when it is not negative.
    pub fn as_u64(self) -> Option<u64> {
        (!self.negative).then_some(self.body)
    }
}

impl From<u64> for Integer {
    fn from(value: u64) -> Integer {
        Integer::from_parts(false, value)
    }
}

impl From<i64> for Integer {
    fn from(value: i64) -> Integer {
        match u64::try_from(value) {
            Ok(body) => Integer::from_parts(false, body),
            // Two's complement negation less one never overflows: !(−1) = 0.
            Err(_) => Integer::from_parts(true, (!value).unsigned_abs()),
        }
    }
}

impl<'a> Ascii<'a> {
    /// Takes text that is ASCII throughout; `None` otherwise.
    pub fn new(text: &'a str) -> Option<Ascii<'a>> {
        text.is_ascii().then_some(Ascii(text))
    }

    /// The text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl<'a> Utc<'a> {
    /// Takes a body of 2 to 10 bytes; `None` otherwise.
    pub fn new(body: &'a [u8]) -> Option<Utc<'a>> {
        (2..=10).contains(&body.len()).then_some(Utc(body))
    }

    /// The body as stored.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Object<'a> {
    /// The body as stored, without the object's own header.
    pub fn body(self) -> &'a [u8] {
        self.body
    }

    /// Reads the values inside; offsets in errors count from where the outermost reader began.
    pub fn values(self) -> Reader<'a> {
        Reader::nested(self.body, self.at)
    }
}

#[cfg(test)]
mod tests;
