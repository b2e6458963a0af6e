//! The broker's one schema and its bound.

use domain_core::journal::{ChainHead, Sequence};

use super::*;
use crate::record::{NotWritten, fit};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn key() -> Sha256Digest {
    Sha256Digest::from_bytes([0xa5; 32])
}

fn widest(envelope: &[u8]) -> NewRecord {
    let instant = OccurredAt::new(-31_557_014_167_219_200, 999_999_999).expect("the furthest");
    EnvelopePublished::new(instant, key(), Some(TRACEPARENT), envelope)
        .expect("valid")
        .to_record()
        .expect("canonical")
}

#[test]
fn the_largest_envelope_fits_the_widest_record_and_one_byte_more_does_not() {
    assert_eq!(MAX_ENVELOPE_BYTES, 811);
    let size = |envelope: usize| {
        let record = widest(&vec![b'x'; envelope]);
        let (name, payload) = (record.event_type.as_str(), record.payload.as_bytes());
        worst_encoded_len(name.len(), record.version.value(), payload.len())
    };
    assert_eq!(size(MAX_ENVELOPE_BYTES), MAX_RECORD_BYTES);
    assert_eq!(size(MAX_ENVELOPE_BYTES + 1), MAX_RECORD_BYTES + 1);
}

#[test]
fn at_the_first_sequence_seven_bytes_more_fit() {
    let fits = |envelope: usize| {
        let record = widest(&vec![b'x'; envelope]);
        let payload_len = record.payload.as_bytes().len();
        fit(
            &ChainHead::EMPTY,
            &record.event_type,
            record.version,
            payload_len,
        )
    };
    assert_eq!(
        fits(MAX_ENVELOPE_BYTES + 7).map(|fit| fit.size),
        Ok(MAX_RECORD_BYTES)
    );
    assert_eq!(
        fits(MAX_ENVELOPE_BYTES + 8),
        Err(NotWritten::Oversize {
            sequence: Sequence::FIRST,
            size: MAX_RECORD_BYTES + 1
        })
    );
}

#[test]
fn seven_values_go_in_and_come_back() {
    for (seconds, nanos, traceparent) in [(0, 0, None), (-1, 999_999_999, Some(TRACEPARENT))] {
        let occurred_at = OccurredAt::new(seconds, nanos).expect("valid");
        let published =
            EnvelopePublished::new(occurred_at, key(), traceparent, b"{}").expect("valid");
        let record = published.to_record().expect("canonical");
        let fields = Fields::of(record.payload.as_bytes()).expect("an object");
        assert_eq!(EnvelopePublished::decode(fields), Ok(published));
        let published = format!("{published:?}");
        assert!(!published.contains("{}"), "{published}");
    }
}

/// One value of the payload, replaced or left out.
fn altered(index: usize, write: impl Fn(&mut pde::Encoder)) -> Result<(), Error> {
    let payload = Payload::encode(|values| {
        let key = [0xa5; 32];
        for position in 0..8 {
            if position == index {
                write(values);
                continue;
            }
            match position {
                0 => values.integer(Some(Integer::from(1_u64))),
                1 => values.integer(Some(Integer::from(2_u64))),
                2 => values.utf8(None),
                3 => values.bytes(None),
                4 => values.bytes(Some(&key)),
                5 => values.ascii(None),
                6 => values.bytes(Some(b"{}")),
                _ => continue,
            };
        }
    })
    .expect("canonical");
    EnvelopePublishedV1.validate(Fields::of(payload.as_bytes()).expect("an object"))
}

fn field_of(refused: Result<(), Error>) -> &'static str {
    match refused {
        Err(Error::Field { name, .. } | Error::Instant { name, .. }) => name,
        other => panic!("not refused for a value: {other:?}"),
    }
}

#[test]
fn each_value_must_be_what_the_schema_says() {
    let big = Integer::from(31_556_889_864_403_200_i64);
    let short = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0";
    assert_eq!(altered(9, |_| ()), Ok(()), "unaltered");

    assert_eq!(field_of(altered(0, |e| _ = e.integer(None))), "occurredAt");
    assert_eq!(
        field_of(altered(0, |e| _ = e.integer(Some(big)))),
        "occurredAt"
    );
    let second = Some(Integer::from(1_000_000_000_u64));
    assert_eq!(
        field_of(altered(1, |e| _ = e.integer(second))),
        "occurredAt"
    );
    let before = Some(Integer::from(-1_i64));
    assert_eq!(
        field_of(altered(1, |e| _ = e.integer(before))),
        "occurredAt"
    );
    assert_eq!(field_of(altered(2, |e| _ = e.utf8(Some("a note")))), "note");
    assert_eq!(field_of(altered(2, |e| _ = e.ascii(None))), "note");
    assert_eq!(
        field_of(altered(3, |e| _ = e.bytes(Some(&[0; 16])))),
        "correlationId"
    );
    assert_eq!(field_of(altered(4, |e| _ = e.bytes(None))), "partitionKey");
    assert_eq!(
        field_of(altered(4, |e| _ = e.bytes(Some(&[0; 31])))),
        "partitionKey"
    );
    let short = Ascii::new(short);
    assert_eq!(field_of(altered(5, |e| _ = e.ascii(short))), "traceparent");
    assert_eq!(field_of(altered(5, |e| _ = e.utf8(None))), "traceparent");
    assert_eq!(field_of(altered(6, |e| _ = e.bytes(None))), "envelope");
    assert_eq!(field_of(altered(6, |e| _ = e.utf8(Some("{}")))), "envelope");
    assert_eq!(field_of(altered(6, |_| ())), "envelope");
    assert_eq!(
        altered(7, |e| _ = e.boolean(None)),
        Err(Error::ExtraValue { expected: 7 })
    );
}
