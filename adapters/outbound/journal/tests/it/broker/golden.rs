//! The golden file, byte for byte. `golden/broker_journal.py` writes the same bytes on its own.

use std::fs;
use std::path::Path;

use domain_core::hashing::Sha256Digest;
use domain_core::instant::OccurredAt;
use outbound_journal::broker::{self, BrokerReader, EnvelopePublished};
use outbound_journal::{Limits, OfflineReader, Schemas};
use tempfile::tempdir;

use crate::numbered::committed;

const GOLDEN: &[u8] = include_bytes!("../../../golden/broker.journal");
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const MIN: i64 = -31_557_014_167_219_200;
const MAX: i64 = 31_556_889_864_403_199;

struct Published {
    seconds: i64,
    nanos: u32,
    key: [u8; 32],
    traced: bool,
    envelope: Vec<u8>,
}

impl Published {
    fn borrowed(&self) -> EnvelopePublished<'_> {
        EnvelopePublished::new(
            OccurredAt::new(self.seconds, self.nanos).expect("in range"),
            Sha256Digest::from_bytes(self.key),
            self.traced.then_some(TRACEPARENT),
            &self.envelope,
        )
        .expect("valid")
    }
}

fn published() -> Vec<Published> {
    let key = |number: u8| *Sha256Digest::of(format!("golden-key-{number}").as_bytes()).as_bytes();
    let patterned = |number: usize, length: usize| -> Vec<u8> {
        (0..length)
            .map(|index| (number * 31 + index * 7) as u8)
            .collect()
    };
    let greeting = r#"{"eventId":"e-10","title":"Grüße, 世界"}"#.as_bytes().to_vec();
    [
        (0, 0, [0; 32], false, vec![]),
        (MIN, 0, [0xff; 32], true, patterned(2, 1)),
        (MAX, 999_999_999, key(3), true, patterned(3, 15)),
        (-1, 999_999_999, key(4), false, patterned(4, 16)),
        (1, 1, key(5), false, patterned(5, 255)),
        (255, 255, key(6), true, patterned(6, 256)),
        (256, 256, key(7), false, patterned(7, 17)),
        (-256, 65_535, key(8), false, vec![]),
        (-257, 65_536, key(9), true, patterned(9, 100)),
        (1_700_000_000, 123_000_000, key(10), true, greeting),
        (MIN, 999_999_999, key(11), true, patterned(11, 818)),
        (
            4_294_967_295,
            16_777_215,
            key(12),
            false,
            patterned(12, 300),
        ),
        (4_294_967_296, 16_777_216, key(13), false, patterned(13, 14)),
        (0, 0, key(14), false, patterned(14, 213)),
        (0, 0, key(15), false, patterned(15, 212)),
    ]
    .into_iter()
    .map(|(seconds, nanos, key, traced, envelope)| Published {
        seconds,
        nanos,
        key,
        traced,
        envelope,
    })
    .collect()
}

#[test]
fn appending_the_golden_records_writes_the_golden_bytes() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let journal = broker::open(&path, Limits::default()).expect("it opens");
    for (index, record) in published().iter().enumerate() {
        let record = record.borrowed().to_record().expect("canonical");
        assert_eq!(committed(journal.append(record).wait()), index as u64 + 1);
    }
    drop(journal);
    let written = fs::read(&path).expect("readable");
    let difference = written
        .iter()
        .zip(GOLDEN)
        .position(|(ours, golden)| ours != golden);
    assert_eq!(difference, None, "the first differing byte");
    assert_eq!(written.len(), GOLDEN.len());
}

#[test]
fn reading_the_golden_file_gives_the_golden_records() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    fs::write(&path, GOLDEN).expect("writable");
    let journal = broker::open(&path, Limits::default()).expect("valid");
    let expected = published();
    for from in [1, 2, 11, 15] {
        let from = domain_core::journal::Sequence::new(from).expect("in range");
        let mut reader = BrokerReader::open(&journal, from).expect("a reader");
        let mut next = from.value();
        while let Some((sequence, record)) = reader.next_published().expect("readable") {
            assert_eq!(sequence.value(), next);
            assert_eq!(
                record,
                expected[next as usize - 1].borrowed(),
                "record {next}"
            );
            next += 1;
        }
        assert_eq!(next, expected.len() as u64 + 1);
    }
}

#[test]
fn the_checked_in_file_validates_where_it_lies_and_for_a_stranger_without_schemas() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/broker.journal");
    for schemas in [Schemas::Registry(broker::registry()), Schemas::Unchecked] {
        let reader = OfflineReader::open(&path, schemas).expect("valid");
        assert_eq!(reader.head().records(), 15);
        assert_eq!(reader.head().end_offset(), GOLDEN.len() as u64);
    }
}
