//! Many producers at once, and readers beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use tempfile::tempdir;

use crate::hooked::PATIENCE;
use crate::numbered::{committed, contents, number_of, numbered, open};

const PRODUCERS: i64 = 8;
const EACH: i64 = 60;

#[test]
fn sequences_are_contiguous_and_every_acknowledged_record_is_there() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let journal = Arc::new(open(&path).expect("it opens"));
    let total = (PRODUCERS * EACH) as u64;

    let follower = {
        let journal = Arc::clone(&journal);
        thread::spawn(move || {
            let mut reader = journal.reader().expect("a reader");
            let mut seen = Vec::new();
            while (seen.len() as u64) < total {
                match reader.next_record().expect("readable") {
                    Some(record) => {
                        seen.push((record.sequence.value(), number_of(record.payload)));
                    }
                    None => {
                        let head = journal.wait_beyond(seen.len() as u64, PATIENCE);
                        assert!(head.records() > seen.len() as u64, "records keep coming");
                    }
                }
            }
            seen
        })
    };
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let journal = Arc::clone(&journal);
            thread::spawn(move || {
                let mut before = 0;
                (0..EACH)
                    .map(|index| {
                        let number = producer * EACH + index;
                        let sequence = committed(journal.append(numbered(number)).wait());
                        assert!(
                            sequence > before,
                            "a producer's own records keep their order"
                        );
                        before = sequence;
                        (sequence, number)
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();

    let acknowledged: BTreeMap<u64, i64> = producers
        .into_iter()
        .flat_map(|producer| producer.join().expect("it ended"))
        .collect();
    assert!(
        acknowledged.keys().copied().eq(1..=total),
        "contiguous from 1"
    );
    let seen = follower.join().expect("it ended");
    let expected: Vec<_> = acknowledged.into_iter().collect();
    assert_eq!(seen, expected);
    drop(journal);
    assert_eq!(contents(&path), expected);
}

#[test]
fn a_reader_outlives_its_journal() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let journal = open(&path).expect("it opens");
    assert_eq!(committed(journal.append(numbered(7)).wait()), 1);
    let mut reader = journal.reader().expect("a reader");
    drop(journal);
    let next = open(&path).expect("a reader holds no lock");
    assert_eq!(committed(next.append(numbered(8)).wait()), 2);
    let record = reader.next_record().expect("readable").expect("there");
    assert_eq!(number_of(record.payload), 7);
    // The next journal's records are not this reader's.
    assert_eq!(reader.next_record().expect("readable"), None);
}
