//! Writes values in the canonical form.
//!
//! Invariant: every value is written at its minimal width; there is no way to write another.

use super::{Ascii, Float, Integer, Utc, Value, code};

/// Collects encoded values one after another.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder without values.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoded bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a truth value or its null.
    pub fn boolean(&mut self, value: Option<bool>) -> &mut Encoder {
        self.bytes.push(match value {
            None => code::BOOL_NULL,
            Some(true) => code::BOOL_TRUE,
            Some(false) => code::BOOL_FALSE,
        });
        self
    }

    /// Writes an integer or its null.
    pub fn integer(&mut self, value: Option<Integer>) -> &mut Encoder {
        match value {
            None => self.bytes.push(code::INT_NULL),
            Some(Integer { negative, body }) => {
                let first = if negative {
                    code::INT_NEGATIVE
                } else {
                    code::INT_POSITIVE
                };
                self.tagged_number(first, body);
            }
        }
        self
    }

    /// Writes a float or its null.
    pub fn float(&mut self, value: Option<Float>) -> &mut Encoder {
        match value {
            None => self.bytes.push(code::FLOAT_NULL),
            Some(Float::Four(float)) => {
                self.bytes.push(code::FLOAT_4);
                self.bytes.extend_from_slice(&float.to_le_bytes());
            }
            Some(Float::Eight(float)) => {
                self.bytes.push(code::FLOAT_8);
                self.bytes.extend_from_slice(&float.to_le_bytes());
            }
        }
        self
    }

    /// Writes raw bytes or their null.
    pub fn bytes(&mut self, value: Option<&[u8]>) -> &mut Encoder {
        self.sized(code::BYTES_NULL, value);
        self
    }

    /// Writes ASCII text or its null.
    pub fn ascii(&mut self, value: Option<Ascii<'_>>) -> &mut Encoder {
        self.sized(code::ASCII_NULL, value.map(|text| text.as_str().as_bytes()));
        self
    }

    /// Writes UTF-8 text or its null.
    pub fn utf8(&mut self, value: Option<&str>) -> &mut Encoder {
        self.sized(code::UTF8_NULL, value.map(str::as_bytes));
        self
    }

    /// Writes a UTC body or its null.
    pub fn utc(&mut self, value: Option<Utc<'_>>) -> &mut Encoder {
        match value {
            None => self.bytes.push(code::UTC_NULL),
            Some(utc) => {
                let body = utc.as_bytes();
                self.bytes.push(code::UTC_2 + narrow(body.len() - 2));
                self.bytes.extend_from_slice(body);
            }
        }
        self
    }

    /// Writes an object with the values that `fill` writes.
    pub fn object(&mut self, fill: impl FnOnce(&mut Encoder)) -> &mut Encoder {
        let mut inner = Encoder::new();
        fill(&mut inner);
        self.object_of(&inner.bytes)
    }

    /// Writes the null of an object.
    pub fn null_object(&mut self) -> &mut Encoder {
        self.bytes.push(code::OBJECT_NULL);
        self
    }

    /// Writes any value. An object's body is copied as it is: a [`Reader`](super::Reader) has
    /// bounded it, and [`check`](super::check) vouches for what is inside.
    pub fn value(&mut self, value: Value<'_>) -> &mut Encoder {
        match value {
            Value::Bool(value) => self.boolean(value),
            Value::Int(value) => self.integer(value),
            Value::Float(value) => self.float(value),
            Value::Bytes(value) => self.bytes(value),
            Value::Ascii(value) => self.ascii(value),
            Value::Utf8(value) => self.utf8(value),
            Value::Utc(value) => self.utc(value),
            Value::Object(None) => self.null_object(),
            Value::Object(Some(object)) => self.object_of(object.body()),
        }
    }

    fn object_of(&mut self, body: &[u8]) -> &mut Encoder {
        self.tagged_number(code::OBJECT, body.len() as u64);
        self.bytes.extend_from_slice(body);
        self
    }

    fn sized(&mut self, null: u8, value: Option<&[u8]>) {
        let Some(body) = value else {
            self.bytes.push(null);
            return;
        };
        if body.len() <= code::INLINE_MAX {
            self.bytes.push(null + code::INLINE + narrow(body.len()));
        } else {
            self.tagged_number(null + code::ONE_LENGTH_BYTE, body.len() as u64);
        }
        self.bytes.extend_from_slice(body);
    }

    /// A code chosen by the number's width, counted from the one-byte code, then the number.
    fn tagged_number(&mut self, one_byte: u8, number: u64) {
        let width = code::width(number);
        self.bytes.push(one_byte + narrow(width - 1));
        self.bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
}

/// Distances inside the code table, all below 16.
fn narrow(distance: usize) -> u8 {
    debug_assert!(distance <= code::INLINE_MAX);
    distance as u8
}
