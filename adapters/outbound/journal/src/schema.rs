//! The schema layer: which events a journal file knows and what their payloads hold.
//!
//! Codecs are given to the journal, never constructed in it (requirement 000, "Event and codec
//! contract"). A file has one [`Registry`], given at open; a record outside it is refused, on append
//! and in history alike.
//!
//! Invariant: a schema is judged only on a payload that is canonical PDE, and it judges the whole
//! payload: exact types, ranges and the exact number of values.

use std::fmt;
use std::sync::Arc;

use domain_core::instant::{InstantError, OccurredAt};

use crate::pde::{self, Reader, Value};
use crate::record::{EventType, EventVersion};

/// Knows one event in one persistent version.
pub trait Codec: Send + Sync {
    /// The stable name, field 4 of its records.
    fn event_type(&self) -> &EventType;

    /// The persistent version, field 5 of its records.
    fn version(&self) -> EventVersion;

    /// Checks a payload in full, its end included ([`Fields::finish`]).
    ///
    /// # Errors
    /// MUST return an error for every payload that the event does not allow in this version. MUST
    /// NOT panic, whatever the payload.
    fn validate(&self, payload: Fields<'_>) -> Result<(), Error>;
}

/// The codecs of one journal file.
#[derive(Clone, Default)]
pub struct Registry {
    codecs: Vec<Arc<dyn Codec>>,
}

/// Two codecs claim the same event type and version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two codecs claim event {event_type} version {version}")]
pub struct DuplicateCodec {
    /// The event claimed twice.
    pub event_type: EventType,
    /// Its version.
    pub version: EventVersion,
}

/// A payload does not satisfy its event's schema, or the event is not known. Names fields, never
/// their content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The registry has no codec for this event type and version.
    #[error("no codec for event {event_type} version {version}")]
    NoCodec {
        /// Event type, escaped.
        event_type: String,
        /// Event version.
        version: u32,
    },
    /// A value is missing, of another type, null where it must not be, or not null where it must be.
    #[error("value {name} is not {expected}")]
    Field {
        /// The value's name in the schema.
        name: &'static str,
        /// What the schema asks for.
        expected: &'static str,
    },
    /// The two values of an instant are out of range.
    #[error("value {name} is out of range")]
    Instant {
        /// The instant's name in the schema.
        name: &'static str,
        /// The part and its range.
        #[source]
        source: InstantError,
    },
    /// Values follow the last one of the schema.
    #[error("the payload has more than {expected} values")]
    ExtraValue {
        /// Number of values of the schema.
        expected: usize,
    },
    /// The payload is not the encoding that the layer below vouches for.
    #[error("the payload is not readable")]
    Encoding(#[source] pde::Error),
}

/// Takes the positional values off a payload, typed.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
    taken: usize,
}

impl Registry {
    /// A registry of these codecs.
    ///
    /// # Errors
    /// [`DuplicateCodec`] when two of them claim the same event type and version.
    pub fn new(
        codecs: impl IntoIterator<Item = Arc<dyn Codec>>,
    ) -> Result<Registry, DuplicateCodec> {
        let mut registry = Registry::default();
        for codec in codecs {
            let (event_type, version) = (codec.event_type(), codec.version());
            if registry
                .find(event_type.as_str(), version.value())
                .is_some()
            {
                return Err(DuplicateCodec {
                    event_type: event_type.clone(),
                    version,
                });
            }
            registry.codecs.push(codec);
        }
        Ok(registry)
    }

    /// A registry of one codec.
    pub fn of(codec: impl Codec + 'static) -> Registry {
        Registry {
            codecs: vec![Arc::new(codec)],
        }
    }

    /// Checks one payload object, given with its header.
    ///
    /// # Errors
    /// [`Error::NoCodec`], or what the codec finds.
    pub fn validate(&self, event_type: &str, version: u32, payload: &[u8]) -> Result<(), Error> {
        let codec = self
            .find(event_type, version)
            .ok_or_else(|| Error::NoCodec {
                event_type: event_type.as_bytes().escape_ascii().to_string(),
                version,
            })?;
        codec.validate(Fields::of(payload)?)
    }

    // A file knows a handful of events, so a walk beats hashing.
    fn find(&self, event_type: &str, version: u32) -> Option<&Arc<dyn Codec>> {
        self.codecs.iter().find(|codec| {
            codec.version().value() == version && codec.event_type().as_str() == event_type
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_list()
            .entries(
                self.codecs
                    .iter()
                    .map(|codec| (codec.event_type(), codec.version())),
            )
            .finish()
    }
}

impl<'a> Fields<'a> {
    /// Opens a payload object, given with its header.
    ///
    /// # Errors
    /// [`Error::Encoding`] or [`Error::Field`] when it is not one object.
    pub fn of(payload: &'a [u8]) -> Result<Fields<'a>, Error> {
        let mut reader = Reader::new(payload);
        let Value::Object(Some(object)) = reader.value().map_err(Error::Encoding)? else {
            return Err(field("payload", "an object"));
        };
        reader.finish().map_err(Error::Encoding)?;
        Ok(Fields {
            reader: object.values(),
            taken: 0,
        })
    }

    /// A required signed 64-bit integer.
    ///
    /// # Errors
    /// [`Error`] when the next value is anything else.
    pub fn signed(&mut self, name: &'static str) -> Result<i64, Error> {
        match self.next(name)? {
            Value::Int(Some(integer)) => integer.as_i64(),
            _ => None,
        }
        .ok_or(field(name, "a signed 64-bit integer"))
    }

    /// An instant: seconds, then nano-of-second, two integers.
    ///
    /// # Errors
    /// [`Error`] when they are not, or out of range.
    pub fn instant(&mut self, name: &'static str) -> Result<OccurredAt, Error> {
        let seconds = self.signed(name)?;
        let nanos = self.signed(name)?;
        let nanos =
            u32::try_from(nanos).map_err(|_| field(name, "a nano-of-second of 0 to 999999999"))?;
        OccurredAt::new(seconds, nanos).map_err(|source| Error::Instant { name, source })
    }

    /// Required bytes.
    ///
    /// # Errors
    /// [`Error`] when the next value is anything else, null included.
    pub fn bytes(&mut self, name: &'static str) -> Result<&'a [u8], Error> {
        self.optional_bytes(name)?.ok_or(field(name, "bytes"))
    }

    /// Bytes or their null.
    ///
    /// # Errors
    /// [`Error`] when the next value is anything else.
    pub fn optional_bytes(&mut self, name: &'static str) -> Result<Option<&'a [u8]>, Error> {
        match self.next(name)? {
            Value::Bytes(value) => Ok(value),
            _ => Err(field(name, "bytes or their null")),
        }
    }

    /// Required bytes of one exact length.
    ///
    /// # Errors
    /// [`Error`] when the next value is anything else; `expected` says what is asked for.
    pub fn exact_bytes<const N: usize>(
        &mut self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<[u8; N], Error> {
        match self.next(name)? {
            Value::Bytes(Some(bytes)) => bytes.try_into().ok(),
            _ => None,
        }
        .ok_or(field(name, expected))
    }

    /// ASCII text or its null.
    ///
    /// # Errors
    /// [`Error`] when the next value is anything else.
    pub fn optional_ascii(&mut self, name: &'static str) -> Result<Option<&'a str>, Error> {
        match self.next(name)? {
            Value::Ascii(value) => Ok(value.map(pde::Ascii::as_str)),
            _ => Err(field(name, "ASCII text or its null")),
        }
    }

    /// UTF-8 text or its null.
    ///
    /// # Errors
    /// [`Error`] when the next value is anything else.
    pub fn optional_utf8(&mut self, name: &'static str) -> Result<Option<&'a str>, Error> {
        match self.next(name)? {
            Value::Utf8(value) => Ok(value),
            _ => Err(field(name, "UTF-8 text or its null")),
        }
    }

    /// Asserts that the last value was taken.
    ///
    /// # Errors
    /// [`Error::ExtraValue`] when another follows.
    pub fn finish(self) -> Result<(), Error> {
        if self.reader.is_at_end() {
            Ok(())
        } else {
            Err(Error::ExtraValue {
                expected: self.taken,
            })
        }
    }

    fn next(&mut self, name: &'static str) -> Result<Value<'a>, Error> {
        if self.reader.is_at_end() {
            return Err(field(name, "there"));
        }
        self.taken += 1;
        self.reader.value().map_err(Error::Encoding)
    }
}

fn field(name: &'static str, expected: &'static str) -> Error {
    Error::Field { name, expected }
}
