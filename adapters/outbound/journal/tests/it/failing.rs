//! Writes and syncs that fail: uncertain, latched, and nothing repaired.

use std::fs;
use std::io;
use std::path::Path;

use outbound_journal::{AppendOutcome, CommitFailure, Journal, Limits, OpenError, Storage};
use tempfile::tempdir;

use crate::hooked::{self, Gate, Hooks};
use crate::numbered::{committed, contents, number_of, numbered, open, rejection};

/// What a disk without room says.
fn no_space() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn uncertain(outcome: AppendOutcome) -> String {
    match outcome {
        AppendOutcome::Uncertain(failure) => failure.to_string(),
        other => panic!("not uncertain: {other:?}"),
    }
}

fn latched(outcome: AppendOutcome) -> String {
    match outcome {
        AppendOutcome::Latched(failure) => failure.to_string(),
        other => panic!("not latched: {other:?}"),
    }
}

/// The journal is closed to this process, whatever the file is called, and keeps showing what it
/// had published.
fn assert_latched(path: &Path, journal: Journal, published: &[(u64, i64)]) {
    assert!(journal.failure().is_some());
    latched(journal.append(numbered(99)).wait());
    let mut reader = journal.reader().expect("a reader");
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().expect("readable up to the head") {
        seen.push((record.sequence.value(), number_of(record.payload)));
    }
    assert_eq!(seen, published);
    assert_eq!(journal.head().records(), published.len() as u64);

    let length = fs::metadata(path).expect("there").len();
    assert!(matches!(
        open(path),
        Err(OpenError::AlreadyOpen { .. } | OpenError::Latched { .. })
    ));
    drop(journal);
    assert!(matches!(open(path), Err(OpenError::Latched { .. })));
    let moved = path.with_extension("moved");
    fs::rename(path, &moved).expect("moved");
    assert!(matches!(open(&moved), Err(OpenError::Latched { .. })));
    fs::rename(&moved, path).expect("moved back");
    assert_eq!(
        fs::metadata(path).expect("there").len(),
        length,
        "neither truncated nor repaired"
    );
}

/// The file as a next process finds it: the same bytes under another inode.
fn as_next_process(path: &Path) -> std::path::PathBuf {
    let copy = path.with_extension("next");
    fs::copy(path, &copy).expect("copied");
    copy
}

#[test]
fn a_failed_sync_makes_its_batch_uncertain_and_the_queue_latched() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    // Two records a batch, so that some of the queue is in the failing batch and some behind it.
    let limits = Limits::new(2, 10_240, 100).expect("valid");
    let journal = hooked::open(&path, limits, hooks).expect("it opens");
    let first = journal.append(numbered(1));
    gate.await_sync();
    let batch = [journal.append(numbered(2)), journal.append(numbered(3))];
    let behind = [journal.append(numbered(4)), journal.append(numbered(5))];
    gate.pass();
    gate.await_sync();
    gate.fail(io::Error::other("planted"));

    assert_eq!(committed(first.wait()), 1);
    for append in batch {
        assert_eq!(uncertain(append.wait()), "a sync failed");
    }
    for append in behind {
        assert_eq!(latched(append.wait()), "a sync failed");
    }
    match journal.failure().as_deref() {
        Some(CommitFailure::Sync(source)) => assert_eq!(source.to_string(), "planted"),
        other => panic!("{other:?}"),
    }
    assert_latched(&path, journal, &[(1, 1)]);
    // The unknown batch was in the file after all; to the next process it counts. What was
    // latched is not there.
    assert_eq!(contents(&as_next_process(&path)), [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn a_failed_write_is_uncertain_and_not_tried_again() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let mut calls = 0;
    let hooks = Hooks {
        write: Box::new(move |file, bytes, offset| {
            calls += 1;
            match calls {
                1 => file.write_at(bytes, offset),
                2 => Err(io::Error::from_raw_os_error(5)),
                _ => panic!("a third write"),
            }
        }),
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    assert_eq!(committed(journal.append(numbered(1)).wait()), 1);
    let offset = journal.head().end_offset();
    let failure = uncertain(journal.append(numbered(2)).wait());
    assert_eq!(
        failure,
        format!("a write of {offset} bytes at {offset} failed")
    );
    assert_latched(&path, journal, &[(1, 1)]);
    assert_eq!(contents(&as_next_process(&path)), [(1, 1)]);
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_record_leaves_a_tail_that_is_refused() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let mut calls = 0;
    let hooks = Hooks {
        write: Box::new(move |file, bytes, offset| {
            calls += 1;
            match calls {
                1 => file.write_at(bytes, offset),
                // The kernel takes what fits and reports the rest with the next write.
                2 => file.write_at(&bytes[..40], offset),
                _ => Err(no_space()),
            }
        }),
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    assert_eq!(committed(journal.append(numbered(1)).wait()), 1);
    let end = journal.head().end_offset();
    let failure = uncertain(journal.append(numbered(2)).wait());
    assert_eq!(failure, format!("a write at {end} took 40 of {end} bytes"));
    assert_latched(&path, journal, &[(1, 1)]);

    let refused = rejection(open(&as_next_process(&path)));
    assert!(refused.is_truncated_tail(), "{refused:?}");
    assert_eq!((refused.sequence, refused.offset), (2, end));
}

#[test]
fn a_disk_without_any_room_is_uncertain_too() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let hooks = Hooks {
        write: Box::new(|_, _, _| Err(no_space())),
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    uncertain(journal.append(numbered(1)).wait());
    assert_latched(&path, journal, &[]);
}

#[test]
fn a_writer_that_panics_latches_and_still_answers() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let hooks = Hooks {
        sync_data: Box::new(|_| panic!("planted: the storage panics")),
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    uncertain(journal.append(numbered(1)).wait());
    journal.close();
    assert_latched(&path, journal, &[]);
}

#[test]
fn other_journals_of_the_process_go_on() {
    let dir = tempdir().expect("a directory");
    let broken = dir.path().join("broken");
    let sound = dir.path().join("sound");
    let hooks = Hooks {
        sync_data: Box::new(|_| Err(io::Error::other("planted"))),
        ..Hooks::default()
    };
    let one = hooked::open(&broken, Limits::default(), hooks).expect("it opens");
    let other = open(&sound).expect("it opens");
    uncertain(one.append(numbered(1)).wait());
    assert_eq!(committed(other.append(numbered(1)).wait()), 1);
    assert_latched(&broken, one, &[]);
}

#[test]
fn a_latched_file_cannot_be_replaced_by_one_that_gets_its_inode() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let hooks = Hooks {
        sync_data: Box::new(|_| Err(io::Error::other("planted"))),
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    uncertain(journal.append(numbered(1)).wait());
    drop(journal);
    fs::remove_file(&path).expect("removed");
    // The descriptor that the latch keeps pins the old inode, so each new file has another.
    for number in 0..20 {
        let fresh = dir.path().join(number.to_string());
        let journal = open(&fresh).expect("a new file is no latched one");
        assert_eq!(committed(journal.append(numbered(number)).wait()), 1);
    }
}

/// What is written into a file without a name is lost with the process, so nothing is.
#[test]
fn a_removed_file_takes_no_further_record() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let journal = crate::numbered::open(&path).expect("it opens");
    crate::numbered::committed(journal.append(numbered(1)).wait());
    std::fs::remove_file(&path).expect("removed");
    assert!(matches!(
        journal.append(numbered(2)).wait(),
        AppendOutcome::Uncertain(_)
    ));
    assert!(matches!(
        journal.append(numbered(3)).wait(),
        AppendOutcome::Latched(_)
    ));
}
