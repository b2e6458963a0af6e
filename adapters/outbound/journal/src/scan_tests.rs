//! Whole journals in memory: every mutation is refused, by a named layer.

use std::cell::Cell;

use domain_core::journal::ChainHead;

use super::*;
use crate::pde::Integer;
use crate::record::{EventType, EventVersion, Payload};
use crate::rejection::Layer;
use crate::schema::{self, Codec, Fields};

impl Source for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.get(offset as usize..).unwrap_or_default();
        // At most seven bytes a call, so that every refill meets a record in pieces.
        let count = rest.len().min(buffer.len()).min(7);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// `Counted` v1: one integer and nullable text.
struct Counted {
    event_type: EventType,
}

impl Codec for Counted {
    fn event_type(&self) -> &EventType {
        &self.event_type
    }

    fn version(&self) -> EventVersion {
        EventVersion::ONE
    }

    fn validate(&self, mut payload: Fields<'_>) -> Result<(), schema::Error> {
        payload.signed("count")?;
        payload.optional_utf8("note")?;
        payload.finish()
    }
}

fn counted() -> EventType {
    EventType::new("Counted").expect("valid")
}

fn schemas() -> Schemas {
    let codec: Arc<dyn Codec> = Arc::new(Counted {
        event_type: counted(),
    });
    Schemas::Registry(Arc::new(Registry::new([codec]).expect("one codec")))
}

fn payload(count: i64, note: Option<&str>) -> Payload {
    Payload::encode(|values| {
        values.integer(Some(Integer::from(count))).utf8(note);
    })
    .expect("canonical")
}

fn push(
    image: &mut Vec<u8>,
    head: ChainHead,
    event_type: &EventType,
    payload: &Payload,
) -> ChainHead {
    let payload = payload.as_bytes();
    let fit = record::fit(&head, event_type, EventVersion::ONE, payload.len()).expect("it fits");
    record::write(image, &head, fit, event_type, EventVersion::ONE, payload).expect("it fits")
}

/// A journal of these payloads and the offset at which each record ends.
fn journal(payloads: &[Payload]) -> (Vec<u8>, Vec<usize>) {
    let mut image = Vec::new();
    let mut head = ChainHead::EMPTY;
    let mut ends = Vec::new();
    for payload in payloads {
        head = push(&mut image, head, &counted(), payload);
        ends.push(image.len());
    }
    (image, ends)
}

fn small() -> (Vec<u8>, Vec<usize>) {
    journal(&[
        payload(1, None),
        payload(-70_000, Some("a note of some length")),
        payload(i64::MAX, Some("")),
    ])
}

fn scan(image: &[u8]) -> Result<ChainHead, ReadError> {
    Scanner::new(image, schemas()).run(image.len() as u64)
}

fn rejection(image: &[u8]) -> Rejection {
    match scan(image) {
        Err(ReadError::Rejected(rejection)) => rejection,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn an_intact_journal_is_read_record_by_record() {
    let (image, ends) = small();
    let mut scanner = Scanner::new(&image[..], schemas());
    for (index, end) in ends.iter().enumerate() {
        let record = scanner
            .next(image.len() as u64)
            .expect("valid")
            .expect("there");
        assert_eq!(record.sequence.value(), index as u64 + 1);
        assert_eq!((record.event_type, record.event_version), ("Counted", 1));
        assert_eq!(scanner.head().end_offset(), *end as u64);
    }
    assert_eq!(scanner.next(image.len() as u64).expect("valid"), None);
    assert_eq!(scan(&[]).expect("an empty journal"), ChainHead::EMPTY);
}

#[test]
fn every_byte_changed_to_every_other_value_is_refused() {
    let (image, _) = small();
    let mut layers = [0_usize; 4];
    for at in 0..image.len() {
        for flip in 1..=255_u8 {
            let mut damaged = image.clone();
            damaged[at] ^= flip;
            layers[rejection(&damaged).layer() as usize] += 1;
        }
    }
    // Each layer above the schema is needed for some of them; none of them gets to the schema, since
    // the checksum stands before it.
    assert_eq!(layers.iter().sum::<usize>(), image.len() * 255);
    assert!(layers[..3].iter().all(|count| *count > 0), "{layers:?}");
    assert_eq!(layers[3], 0, "{layers:?}");
}

#[test]
fn a_cut_inside_a_record_is_a_truncated_tail_and_between_records_opens_shorter() {
    let (image, ends) = small();
    for length in 0..image.len() {
        let cut = &image[..length];
        let whole = ends.iter().filter(|end| **end <= length).count();
        let start = whole.checked_sub(1).map_or(0, |index| ends[index]);
        if start == length {
            let head = scan(cut).expect("whole records");
            assert_eq!(head.records(), whole as u64);
            continue;
        }
        let rejection = rejection(cut);
        assert!(rejection.is_truncated_tail(), "{length}: {rejection:?}");
        assert_eq!(rejection.layer(), Layer::Framing);
        assert_eq!(rejection.sequence, whole as u64 + 1);
        assert_eq!(rejection.offset, start as u64);
    }
}

#[test]
fn a_tail_of_zeros_is_no_record() {
    let (mut image, ends) = small();
    image.extend_from_slice(&[0; 40]);
    let rejection = rejection(&image);
    assert_eq!(rejection.layer(), Layer::Framing);
    assert!(!rejection.is_truncated_tail());
    assert_eq!(rejection.offset, ends[2] as u64);
}

#[test]
fn records_swapped_dropped_repeated_or_spliced_from_elsewhere_are_refused() {
    let (image, ends) = journal(&[payload(1, None), payload(2, None), payload(3, None)]);
    let record = |index: usize| {
        let start = index.checked_sub(1).map_or(0, |before| ends[before]);
        &image[start..ends[index]]
    };
    let (other, other_ends) = journal(&[payload(9, None), payload(2, None)]);
    let spliced = &other[other_ends[0]..];

    for (name, sequence, records) in [
        ("swapped", 2, vec![record(0), record(2), record(1)]),
        ("first dropped", 1, vec![record(1), record(2)]),
        ("middle dropped", 2, vec![record(0), record(2)]),
        ("repeated", 2, vec![record(0), record(0), record(1)]),
        ("spliced", 2, vec![record(0), spliced, record(2)]),
    ] {
        let rejection = rejection(&records.concat());
        assert_eq!(rejection.sequence, sequence, "{name}");
        assert!(
            matches!(
                rejection.fault,
                Fault::Integrity(IntegrityError::Chain(ChainBreak::Previous { .. }))
            ),
            "{name}: {rejection:?}"
        );
    }
}

#[test]
fn a_record_that_is_sealed_over_a_wrong_sequence_is_refused() {
    let (image, ends) = journal(&[payload(1, None), payload(2, None)]);
    let mut forged = image.clone();
    // The sequence of the second record stands behind its header and two checksums.
    let sequence_at = ends[0] + 3 + 34 + 34 + 1;
    assert_eq!(forged[sequence_at], 2);
    forged[sequence_at] = 3;
    let covered = ends[0] + 3 + 34;
    let checksum = domain_core::journal::Checksum::of(&forged[covered..]);
    forged[covered - 32..covered].copy_from_slice(checksum.as_bytes());
    assert!(matches!(
        rejection(&forged).fault,
        Fault::Integrity(IntegrityError::Chain(ChainBreak::Sequence {
            stored: 3,
            ..
        }))
    ));
}

#[test]
fn a_sealed_record_of_another_schema_is_refused_by_the_schema_layer() {
    let mut image = Vec::new();
    let stranger = EventType::new("Stranger").expect("valid");
    let head = push(&mut image, ChainHead::EMPTY, &counted(), &payload(1, None));
    push(&mut image, head, &stranger, &payload(2, None));
    let unknown = rejection(&image);
    assert_eq!(unknown.layer(), Layer::Schema);
    assert_eq!(unknown.sequence, 2);
    assert!(matches!(
        unknown.fault,
        Fault::Schema(schema::Error::NoCodec { .. })
    ));

    let third_value = Payload::encode(|values| {
        values
            .integer(Some(Integer::from(1_u64)))
            .utf8(None)
            .utf8(None);
    })
    .expect("canonical");
    let (image, _) = journal(&[third_value]);
    assert_eq!(
        rejection(&image).fault,
        Fault::Schema(schema::Error::ExtraValue { expected: 2 })
    );

    let head = Scanner::new(&image[..], Schemas::Unchecked)
        .run(image.len() as u64)
        .expect("framing, PDE and chain hold");
    assert_eq!(head.records(), 1);
}

#[test]
fn nothing_past_the_limit_is_looked_at() {
    let (mut image, ends) = small();
    let limit = ends[1] as u64;
    for byte in &mut image[ends[1]..] {
        *byte = 0xff;
    }
    let mut scanner = Scanner::new(&image[..], schemas());
    assert_eq!(scanner.run(limit).expect("valid up to there").records(), 2);
    assert!(matches!(
        scanner.next(image.len() as u64),
        Err(ReadError::Rejected(_))
    ));
    // And it stays there.
    assert!(scanner.next(image.len() as u64).is_err());
}

/// Remembers how far it was asked.
struct Watched<'a> {
    image: &'a [u8],
    furthest: Cell<u64>,
}

impl Source for Watched<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset + buffer.len() as u64;
        self.furthest.set(self.furthest.get().max(end));
        self.image.read_at(buffer, offset)
    }
}

#[test]
fn nothing_past_the_limit_is_even_read() {
    // What lies there may be half of a batch being written, and would go stale in the buffer.
    let (image, ends) = small();
    let watched = Watched {
        image: &image,
        furthest: Cell::new(0),
    };
    let mut scanner = Scanner::new(&watched, schemas());
    for end in ends {
        scanner.run(end as u64).expect("valid up to there");
        assert_eq!(watched.furthest.get(), end as u64);
    }
}

#[test]
fn a_refusal_says_layer_sequence_and_place() {
    let (image, ends) = small();
    let rejection = rejection(&image[..ends[1] + 5]);
    assert_eq!(
        rejection.to_string(),
        format!("framing: record 3 at byte {} is refused", ends[1])
    );
    let source = std::error::Error::source(&rejection).expect("the fault");
    assert!(source.to_string().starts_with("truncated tail"), "{source}");
}
