//! The record's bytes against the format as it is written down, and its bound.

use domain_core::journal::{ChainHead, Checksum, Sequence};

use super::*;
use crate::pde::Integer;

fn name(text: &'static str) -> EventType {
    EventType::new(text).expect("a valid event type")
}

fn payload_of(length: usize) -> Payload {
    Payload::encode(|values| _ = values.bytes(Some(&vec![0xab; length]))).expect("canonical")
}

fn record_after(head: &ChainHead, event_type: &EventType, payload: &Payload) -> Vec<u8> {
    let payload = payload.as_bytes();
    let fit = fit(head, event_type, EventVersion::ONE, payload.len()).expect("it fits");
    let mut bytes = Vec::new();
    write(
        &mut bytes,
        head,
        fit,
        event_type,
        EventVersion::ONE,
        payload,
    )
    .expect("a sequence");
    assert_eq!(bytes.len(), fit.size);
    bytes
}

#[test]
fn a_record_is_laid_out_as_the_format_says() {
    let payload = Payload::encode(|values| _ = values.integer(Some(Integer::from(7_u64))))
        .expect("canonical");
    let record = record_after(&ChainHead::EMPTY, &name("Seven"), &payload);

    let mut covered = vec![0x28, 0x20];
    covered.extend_from_slice(Checksum::GENESIS.as_bytes());
    covered.extend_from_slice(&[0x04, 0x01]);
    covered.extend_from_slice(&[0x36, b'S', b'e', b'v', b'e', b'n']);
    covered.extend_from_slice(&[0x04, 0x01]);
    covered.extend_from_slice(&[0x90, 0x02, 0x04, 0x07]);
    let mut expected = vec![0x91, (34 + covered.len()) as u8, 0x00, 0x28, 0x20];
    expected.extend_from_slice(Checksum::of(&covered).as_bytes());
    expected.extend_from_slice(&covered);
    assert_eq!(record, expected);
}

#[test]
fn what_was_written_is_parsed_back() {
    let long = name("ABCDEFGHIJKLMNOPQRSTUVWXYZ012345");
    let payload = payload_of(300);
    let record = record_after(&ChainHead::EMPTY, &long, &payload);
    let parsed = parse(&record).expect("a record");
    assert_eq!(parsed.event_type, long.as_str());
    assert_eq!(parsed.event_version, 1);
    assert_eq!(parsed.payload, payload.as_bytes());
    assert_eq!(parsed.link.sequence, 1);
    let head = ChainHead::EMPTY
        .accept(&parsed.link)
        .expect("the first record");
    assert_eq!(head.end_offset(), record.len() as u64);
}

#[test]
fn a_record_of_1024_bytes_fits_and_one_of_1025_does_not() {
    let event_type = name("Event");
    let around = |payload: &Payload| {
        let len = payload.as_bytes().len();
        fit(&ChainHead::EMPTY, &event_type, EventVersion::ONE, len)
    };
    let largest = (0..1_100)
        .map(payload_of)
        .rfind(|payload| around(payload).is_ok())
        .expect("some payload fits");
    let record = record_after(&ChainHead::EMPTY, &event_type, &largest);
    assert_eq!(record.len(), MAX_RECORD_BYTES);
    let refused = around(&payload_of(largest.as_bytes().len() - 5));
    assert_eq!(
        refused,
        Err(NotWritten::Oversize {
            sequence: Sequence::FIRST,
            size: MAX_RECORD_BYTES + 1
        })
    );
}

#[test]
fn the_worst_case_is_that_of_the_last_sequence() {
    assert_eq!(worst_encoded_len(5, 1, 100), 3 + 34 + 34 + 9 + 6 + 2 + 100);
}

#[test]
fn framing_asks_for_more_until_the_end_and_then_says_truncated() {
    assert_eq!(framed_len(&[], false), Ok(None));
    assert_eq!(framed_len(&[0x91, 10], false), Ok(None));
    assert_eq!(
        framed_len(&[0x91, 10], true),
        Err(FramingError::TruncatedTail {
            needed: 3,
            present: 2
        })
    );
    let mut record = vec![0x91, 0x10, 0x00];
    record.resize(18, 0);
    assert_eq!(framed_len(&record, false), Ok(None));
    assert_eq!(
        framed_len(&record, true),
        Err(FramingError::TruncatedTail {
            needed: 19,
            present: 18
        })
    );
    record.push(0);
    assert_eq!(framed_len(&record, false), Ok(Some(19)));
}

#[test]
fn framing_refuses_other_codes_and_lengths_before_looking_further() {
    for code in (0..=255).filter(|code| *code != 0x91) {
        assert_eq!(
            framed_len(&[code], false),
            Err(FramingError::NotARecord(code))
        );
    }
    // A body of 1,021 is the most; the bytes behind it do not matter.
    assert_eq!(framed_len(&[0x91, 0xfd, 0x03], false), Ok(None));
    assert_eq!(
        framed_len(&[0x91, 0xfe, 0x03], false),
        Err(FramingError::TooLong { declared: 1_025 })
    );
    assert_eq!(
        framed_len(&[0x91, 0xff, 0xff], false),
        Err(FramingError::TooLong { declared: 65_538 })
    );
}

/// A body of the given fields behind a header, whatever they are.
fn framed(fill: impl FnOnce(&mut pde::Encoder)) -> Vec<u8> {
    let mut encoder = pde::Encoder::new();
    fill(&mut encoder);
    let body = encoder.into_bytes();
    let mut record = vec![0x91];
    record.extend_from_slice(&(body.len() as u16).to_le_bytes());
    record.extend_from_slice(&body);
    record
}

#[test]
fn each_of_the_six_fields_must_have_its_shape() {
    let hash = [0_u8; 32];
    let one = Some(Integer::from(1_u64));
    let minus = Some(Integer::from(-1_i64));
    let wide = Some(Integer::from(u64::from(u32::MAX) + 1));
    let ascii = |text| pde::Ascii::new(text);
    let cases: [(&str, Vec<u8>); 12] = [
        ("checksum", framed(|_| ())),
        ("checksum", framed(|e| _ = e.bytes(Some(&hash[..31])))),
        ("checksum", framed(|e| _ = e.bytes(None))),
        ("previousChecksum", framed(|e| _ = e.bytes(Some(&hash)))),
        (
            "sequence",
            framed(|e| _ = e.bytes(Some(&hash)).bytes(Some(&hash)).integer(minus)),
        ),
        (
            "sequence",
            framed(|e| _ = e.bytes(Some(&hash)).bytes(Some(&hash)).integer(None)),
        ),
        (
            "eventType",
            framed(|e| {
                e.bytes(Some(&hash))
                    .bytes(Some(&hash))
                    .integer(one)
                    .ascii(ascii(""));
            }),
        ),
        (
            "eventType",
            framed(|e| {
                e.bytes(Some(&hash)).bytes(Some(&hash)).integer(one);
                e.ascii(ascii("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456"));
            }),
        ),
        (
            "eventType",
            framed(|e| {
                e.bytes(Some(&hash))
                    .bytes(Some(&hash))
                    .integer(one)
                    .utf8(Some("Event"));
            }),
        ),
        (
            "eventVersion",
            framed(|e| {
                e.bytes(Some(&hash)).bytes(Some(&hash)).integer(one);
                e.ascii(ascii("Event")).integer(Some(Integer::from(0_u64)));
            }),
        ),
        (
            "eventVersion",
            framed(|e| {
                e.bytes(Some(&hash)).bytes(Some(&hash)).integer(one);
                e.ascii(ascii("Event")).integer(wide);
            }),
        ),
        (
            "payload",
            framed(|e| {
                e.bytes(Some(&hash)).bytes(Some(&hash)).integer(one);
                e.ascii(ascii("Event")).integer(one).null_object();
            }),
        ),
    ];
    for (expected, record) in cases {
        match parse(&record) {
            Err(ParseError::Integrity(IntegrityError::Field { name, .. })) => {
                assert_eq!(name, expected, "{record:02x?}");
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn a_seventh_field_is_refused() {
    let one = Some(Integer::from(1_u64));
    let record = framed(|e| {
        e.bytes(Some(&[0; 32])).bytes(Some(&[0; 32])).integer(one);
        e.ascii(pde::Ascii::new("Event")).integer(one);
        e.object(|_| ()).boolean(None);
    });
    assert!(matches!(
        parse(&record),
        Err(ParseError::Integrity(IntegrityError::ExtraField))
    ));
}

#[test]
fn a_body_that_is_not_pde_is_refused_by_that_layer_with_its_place() {
    let mut record = record_after(&ChainHead::EMPTY, &name("Event"), &payload_of(3));
    let last = record.len() - 1;
    record.truncate(last);
    record[1] -= 1;
    match parse(&record) {
        Err(ParseError::Pde(error)) => assert_eq!(error.kind, pde::ErrorKind::PastEnd),
        other => panic!("{other:?}"),
    }
}

#[test]
fn event_types_and_versions_are_checked_and_print_escaped() {
    assert_eq!(EventType::new(""), Err(InvalidEventType));
    assert_eq!(EventType::new("é"), Err(InvalidEventType));
    assert_eq!(EventType::new("A".repeat(33)), Err(InvalidEventType));
    let odd = EventType::new("A\x1b[31m").expect("ASCII");
    assert_eq!(odd.to_string(), "A\\x1b[31m");
    assert_eq!(EventVersion::new(0), None);
    assert_eq!(EventVersion::new(7).map(EventVersion::value), Some(7));
    assert_eq!(format!("{:?}", payload_of(40)), "Payload(44 bytes)");
}
