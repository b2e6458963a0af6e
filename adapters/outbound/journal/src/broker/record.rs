//! `EnvelopePublished` version 1: one published envelope.
//!
//! ```text
//! 1 occurredAt seconds   integer, −31557014167219200..=31556889864403199
//! 2 occurredAt nanos     integer, 0..=999999999
//! 3 note                 null of UTF-8
//! 4 correlationId        null of BYTES
//! 5 partition key        BYTES, the 32 raw bytes of the key
//! 6 traceparent          ASCII of 55 bytes, or the null of ASCII
//! 7 envelope             BYTES, the exact document
//! ```
//!
//! Invariant: exactly these seven values, and an envelope of at most [`MAX_ENVELOPE_BYTES`] fits a
//! record whatever the other values and the sequence are.

use std::fmt;

use domain_core::hashing::Sha256Digest;
use domain_core::instant::OccurredAt;

use crate::pde::{self, Ascii, Integer, code};
use crate::record::{EventType, EventVersion, MAX_RECORD_BYTES, Payload, worst_encoded_len};
use crate::schema::{Codec, Error, Fields};
use crate::{NewRecord, Record};

static EVENT_TYPE: EventType = EventType::literal("EnvelopePublished");

const TRACEPARENT_BYTES: usize = 55;

/// Largest envelope that a broker's record holds: 811 bytes.
///
/// It is what 1,024 bytes leave beside the record's six fields, the other values of the payload and
/// the length bytes, each at its widest: the last sequence there is, the furthest instant, and a
/// traceparent. Nearer the start of a file, or without a traceparent, more would fit; a bound that
/// depends on neither is the one to hold contracts to.
pub const MAX_ENVELOPE_BYTES: usize = {
    let mut envelope = 0;
    while widest_record(envelope + 1) <= MAX_RECORD_BYTES {
        envelope += 1;
    }
    envelope
};

/// Bytes of the widest record around an envelope.
const fn widest_record(envelope: usize) -> usize {
    // Stored bodies: seconds reach further into the past than into the future.
    let seconds = code::int_len(31_557_014_167_219_200 - 1);
    let nanos = code::int_len(999_999_999);
    let nulls = 2;
    let key = code::sized_len(32);
    let traceparent = code::sized_len(TRACEPARENT_BYTES);
    let values = seconds + nanos + nulls + key + traceparent + code::sized_len(envelope);
    worst_encoded_len("EnvelopePublished".len(), 1, code::object_len(values))
}

/// One published envelope, borrowed from where it is stored or read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EnvelopePublished<'a> {
    occurred_at: OccurredAt,
    partition_key: Sha256Digest,
    traceparent: Option<Ascii<'a>>,
    envelope: &'a [u8],
}

/// The codec of [`EnvelopePublished`] version 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvelopePublishedV1;

impl Codec for EnvelopePublishedV1 {
    fn event_type(&self) -> &EventType {
        &EVENT_TYPE
    }

    fn version(&self) -> EventVersion {
        EventVersion::ONE
    }

    fn validate(&self, payload: Fields<'_>) -> Result<(), Error> {
        EnvelopePublished::decode(payload).map(drop)
    }
}

impl<'a> EnvelopePublished<'a> {
    /// Puts the parts together. The envelope's size is judged where its record is appended.
    ///
    /// # Errors
    /// [`Error::Field`] for a traceparent that is not ASCII of 55 bytes.
    pub fn new(
        occurred_at: OccurredAt,
        partition_key: Sha256Digest,
        traceparent: Option<&'a str>,
        envelope: &'a [u8],
    ) -> Result<EnvelopePublished<'a>, Error> {
        let traceparent = match traceparent {
            None => None,
            Some(text) => Some(
                Ascii::new(text)
                    .filter(|text| text.as_str().len() == TRACEPARENT_BYTES)
                    .ok_or(Error::Field {
                        name: "traceparent",
                        expected: "ASCII of 55 bytes",
                    })?,
            ),
        };
        Ok(EnvelopePublished {
            occurred_at,
            partition_key,
            traceparent,
            envelope,
        })
    }

    /// Reads a record of a broker's file.
    ///
    /// # Errors
    /// [`Error`] for another event or version, or another schema.
    pub fn from_record(record: &Record<'a>) -> Result<EnvelopePublished<'a>, Error> {
        if record.event_type != EVENT_TYPE.as_str() || record.event_version != 1 {
            return Err(Error::NoCodec {
                event_type: record.event_type.as_bytes().escape_ascii().to_string(),
                version: record.event_version,
            });
        }
        EnvelopePublished::decode(Fields::of(record.payload)?)
    }

    fn decode(mut payload: Fields<'a>) -> Result<EnvelopePublished<'a>, Error> {
        let occurred_at = payload.instant("occurredAt")?;
        let unused = |name| Error::Field {
            name,
            expected: "null",
        };
        if payload.optional_utf8("note")?.is_some() {
            return Err(unused("note"));
        }
        if payload.optional_bytes("correlationId")?.is_some() {
            return Err(unused("correlationId"));
        }
        let key = payload.exact_bytes("partitionKey", "32 bytes")?;
        let traceparent = payload.optional_ascii("traceparent")?;
        let envelope = payload.bytes("envelope")?;
        payload.finish()?;
        EnvelopePublished::new(
            occurred_at,
            Sha256Digest::from_bytes(key),
            traceparent,
            envelope,
        )
    }

    /// The record to append.
    ///
    /// # Errors
    /// [`pde::Error`] never comes of these values; it is passed on all the same.
    pub fn to_record(&self) -> Result<NewRecord, pde::Error> {
        let payload = Payload::encode(|values| {
            values
                .integer(Some(Integer::from(self.occurred_at.seconds())))
                .integer(Some(Integer::from(u64::from(self.occurred_at.nanos()))))
                .utf8(None)
                .bytes(None)
                .bytes(Some(self.partition_key.as_bytes()))
                .ascii(self.traceparent)
                .bytes(Some(self.envelope));
        })?;
        Ok(NewRecord {
            event_type: EVENT_TYPE.clone(),
            version: EventVersion::ONE,
            payload,
        })
    }

    /// When the event happened, by its domain's clock.
    pub fn occurred_at(&self) -> OccurredAt {
        self.occurred_at
    }

    /// The partition key; its text is the digest's 64 hexadecimal characters.
    pub fn partition_key(&self) -> Sha256Digest {
        self.partition_key
    }

    /// The W3C traceparent, when one was stored.
    pub fn traceparent(&self) -> Option<&'a str> {
        self.traceparent.map(Ascii::as_str)
    }

    /// The exact document.
    pub fn envelope(&self) -> &'a [u8] {
        self.envelope
    }
}

/// Prints the envelope's size, never its content.
impl fmt::Debug for EnvelopePublished<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EnvelopePublished")
            .field("occurred_at", &self.occurred_at)
            .field("partition_key", &self.partition_key)
            .field("envelope_bytes", &self.envelope.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
