//! Reads values strictly: whatever the encoder would not have written is refused.
//!
//! Invariant: no input makes the reader panic, allocate or look past the slice it was given, and
//! work is linear in the slice. Errors carry a position, never content.

use super::{Ascii, Float, Integer, Object, Utc, Value, code};

/// Deepest nesting of objects that [`check`] accepts. Records nest once; the bound keeps hostile
/// input from costing more than its length.
pub const MAX_DEPTH: usize = 32;

/// Bytes that are not canonical PDE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Error {
    /// Offset of the offending value from where the outermost reader began.
    pub at: usize,
    /// What is wrong with it.
    pub kind: ErrorKind,
}

/// What a value breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// The value needs more bytes than there are.
    #[error("value runs past its end")]
    PastEnd,
    /// The code is unassigned or one that journals do not use.
    #[error("type code {0} is not used in journals")]
    Code(u8),
    /// An integer or length takes more bytes than it needs.
    #[error("width is not minimal")]
    NotMinimal,
    /// ASCII text with a byte above 127.
    #[error("text is not ASCII")]
    NotAscii,
    /// UTF-8 text that is not.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// Objects nested deeper than [`MAX_DEPTH`].
    #[error("objects are nested too deep")]
    TooDeep,
    /// Bytes are left where the values should have ended.
    #[error("bytes are left over")]
    LeftOver,
}

/// Takes values off a slice, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    position: usize,
    base: usize,
}

impl<'a> Reader<'a> {
    /// Reads `input` from its first byte, which errors count as offset 0.
    pub fn new(input: &'a [u8]) -> Reader<'a> {
        Reader::nested(input, 0)
    }

    pub(crate) fn nested(input: &'a [u8], base: usize) -> Reader<'a> {
        Reader {
            input,
            position: 0,
            base,
        }
    }

    /// Whether every byte was read.
    pub fn is_at_end(&self) -> bool {
        self.position == self.input.len()
    }

    /// Bytes read so far from this reader's own slice.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Reads the next value. The inside of an object is bounded but not yet looked at.
    ///
    /// # Errors
    /// [`Error`] at the value's first byte. The reader does not move then.
    pub fn value(&mut self) -> Result<Value<'a>, Error> {
        let start = self.position;
        self.read().map_err(|kind| {
            self.position = start;
            self.error(kind)
        })
    }

    /// Asserts that nothing is left.
    ///
    /// # Errors
    /// [`ErrorKind::LeftOver`] at the first unread byte.
    pub fn finish(&self) -> Result<(), Error> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.error(ErrorKind::LeftOver))
        }
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error {
            at: self.base + self.position,
            kind,
        }
    }

    fn read(&mut self) -> Result<Value<'a>, ErrorKind> {
        let tag = self.take(1)?[0];
        Ok(match tag {
            code::BOOL_NULL => Value::Bool(None),
            code::BOOL_TRUE => Value::Bool(Some(true)),
            code::BOOL_FALSE => Value::Bool(Some(false)),
            code::INT_NULL => Value::Int(None),
            code::INT_POSITIVE..code::INT_NEGATIVE => {
                let body = self.number(tag - code::INT_POSITIVE)?;
                Value::Int(Some(Integer::from_parts(false, body)))
            }
            code::INT_NEGATIVE..code::FLOAT_NULL => {
                let body = self.number(tag - code::INT_NEGATIVE)?;
                Value::Int(Some(Integer::from_parts(true, body)))
            }
            code::FLOAT_NULL => Value::Float(None),
            code::FLOAT_4 => Value::Float(Some(Float::Four(f32::from_le_bytes(self.array()?)))),
            code::FLOAT_8 => Value::Float(Some(Float::Eight(f64::from_le_bytes(self.array()?)))),
            code::BYTES_NULL..code::ASCII_NULL => Value::Bytes(self.sized(tag - code::BYTES_NULL)?),
            code::ASCII_NULL..code::UTF8_NULL => {
                let body = self.sized(tag - code::ASCII_NULL)?;
                Value::Ascii(match body {
                    None => None,
                    Some(bytes) => Some(ascii(bytes)?),
                })
            }
            code::UTF8_NULL..code::UTC_NULL => {
                let body = self.sized(tag - code::UTF8_NULL)?;
                Value::Utf8(match body {
                    None => None,
                    Some(bytes) => {
                        Some(std::str::from_utf8(bytes).map_err(|_| ErrorKind::NotUtf8)?)
                    }
                })
            }
            code::UTC_NULL => Value::Utc(None),
            code::UTC_2..=107 => {
                let body = self.take(2 + usize::from(tag - code::UTC_2))?;
                Value::Utc(Utc::new(body))
            }
            code::OBJECT_NULL => Value::Object(None),
            code::OBJECT..=151 => {
                let length = self.number(tag - code::OBJECT)?;
                let at = self.base + self.position;
                let body = self.take_long(length)?;
                Value::Object(Some(Object { body, at }))
            }
            other => return Err(ErrorKind::Code(other)),
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ErrorKind> {
        let rest = &self.input[self.position..];
        let taken = rest.get(..count).ok_or(ErrorKind::PastEnd)?;
        self.position += count;
        Ok(taken)
    }

    fn take_long(&mut self, count: u64) -> Result<&'a [u8], ErrorKind> {
        self.take(usize::try_from(count).map_err(|_| ErrorKind::PastEnd)?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorKind> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A number of `1 + wider` bytes.
    fn number(&mut self, wider: u8) -> Result<u64, ErrorKind> {
        let width = 1 + usize::from(wider);
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        let number = u64::from_le_bytes(bytes);
        if code::width(number) == width {
            Ok(number)
        } else {
            Err(ErrorKind::NotMinimal)
        }
    }

    /// Bytes or text, by the distance of the code from its kind's null.
    fn sized(&mut self, distance: u8) -> Result<Option<&'a [u8]>, ErrorKind> {
        match distance {
            0 => Ok(None),
            code::INLINE..code::ONE_LENGTH_BYTE => {
                self.take(usize::from(distance - code::INLINE)).map(Some)
            }
            _ => {
                let length = self.number(distance - code::ONE_LENGTH_BYTE)?;
                if length <= code::INLINE_MAX as u64 {
                    return Err(ErrorKind::NotMinimal);
                }
                self.take_long(length).map(Some)
            }
        }
    }
}

/// Checks that a slice is canonical values throughout, objects inside objects included.
///
/// # Errors
/// [`Error`] at the first value that is not.
pub fn check(input: &[u8]) -> Result<(), Error> {
    check_nested(Reader::new(input))
}

pub(crate) fn check_nested(outermost: Reader<'_>) -> Result<(), Error> {
    let mut depth = 0;
    let mut suspended: [Option<Reader<'_>>; MAX_DEPTH] = [const { None }; MAX_DEPTH];
    let mut reader = outermost;
    loop {
        if reader.is_at_end() {
            if depth == 0 {
                return Ok(());
            }
            depth -= 1;
            match suspended[depth].take() {
                Some(outer) => reader = outer,
                None => return Ok(()),
            }
            continue;
        }
        let at = reader.base + reader.position;
        if let Value::Object(Some(object)) = reader.value()? {
            let inner = object.values();
            if depth == MAX_DEPTH {
                let kind = ErrorKind::TooDeep;
                return Err(Error { at, kind });
            }
            suspended[depth] = Some(std::mem::replace(&mut reader, inner));
            depth += 1;
        }
    }
}

fn ascii(bytes: &[u8]) -> Result<Ascii<'_>, ErrorKind> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(Ascii::new)
        .ok_or(ErrorKind::NotAscii)
}
