//! Appends that go well, are refused, or wait.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use outbound_journal::schema::Error;
use outbound_journal::{
    AppendOutcome, EventType, EventVersion, Limits, NewRecord, OpenError, Payload, Refusal,
};
use tempfile::tempdir;

use crate::hooked::{self, Gate, Hooks, PATIENCE, Writes};
use crate::numbered::{committed, contents, event_type, filled, number_of, numbered, open};

fn refused(outcome: AppendOutcome) -> Refusal {
    match outcome {
        AppendOutcome::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn records_are_refused_for_their_schema_and_take_no_sequence() {
    let dir = tempdir().expect("a directory");
    let journal = open(&dir.path().join("j")).expect("it opens");
    let stranger = NewRecord {
        event_type: EventType::new("Stranger").expect("valid"),
        ..numbered(1)
    };
    let newer = NewRecord {
        version: EventVersion::new(2).expect("valid"),
        ..numbered(1)
    };
    let empty = NewRecord {
        event_type: event_type(),
        version: EventVersion::ONE,
        payload: Payload::encode(|_| ()).expect("canonical"),
    };
    for record in [stranger, newer] {
        assert!(matches!(
            refused(journal.append(record).wait()),
            Refusal::Schema(Error::NoCodec { .. })
        ));
    }
    assert!(matches!(
        refused(journal.append(empty).wait()),
        Refusal::Schema(Error::Field { name: "number", .. })
    ));
    assert_eq!(committed(journal.append(numbered(1)).wait()), 1);
}

#[test]
fn one_oversized_record_in_a_batch_fails_alone_with_the_real_sequence() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let (gate, sync_data) = Gate::new();
    let writes = Writes::default();
    let hooks = Hooks {
        write: writes.noted(),
        sync_data,
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    let first = journal.append(numbered(1));
    gate.await_sync();
    let behind = [
        journal.append(numbered(2)),
        journal.append(filled(3, 1_000)),
        journal.append(filled(4, 100_000)),
        journal.append(numbered(5)),
    ];
    gate.pass();
    assert_eq!(committed(first.wait()), 1);
    gate.await_sync();
    gate.pass();
    let [two, three, four, five] = behind.map(|append| append.wait());
    assert_eq!(committed(two), 2);
    for (oversized, filler) in [(three, 1_000_usize), (four, 100_000)] {
        match refused(oversized) {
            Refusal::Oversize { sequence, size } => {
                assert_eq!(sequence.value(), 3);
                assert!(
                    size > 1_024 && size > filler && size < filler + 200,
                    "{size}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(committed(five), 3);
    assert_eq!(
        writes.sizes().len(),
        2,
        "one write for the whole second batch"
    );
    drop(gate);
    drop(journal);
    assert_eq!(contents(&path), [(1, 1), (2, 2), (3, 5)]);
}

#[test]
fn the_largest_record_is_committed_and_one_byte_more_is_not() {
    let dir = tempdir().expect("a directory");
    let journal = open(&dir.path().join("j")).expect("it opens");
    // 3 header, 34 and 34 checksums, 2 sequence, 9 type, 2 version, 3 object, 2 number, 3 bytes.
    let largest = 1_024 - 92;
    assert_eq!(committed(journal.append(filled(1, largest)).wait()), 1);
    assert_eq!(journal.head().end_offset(), 1_024);
    assert!(matches!(
        refused(journal.append(filled(1, largest + 1)).wait()),
        Refusal::Oversize { size: 1_025, .. }
    ));
}

#[test]
fn batches_are_bounded_in_records_and_bytes() {
    let dir = tempdir().expect("a directory");
    for (name, limits, batches) in [
        ("count", Limits::new(2, 1 << 20, 100), vec![1, 2, 2, 1]),
        ("bytes", Limits::new(100, 1_024, 100), vec![1, 3, 2]),
    ] {
        let (gate, sync_data) = Gate::new();
        let writes = Writes::default();
        let hooks = Hooks {
            write: writes.noted(),
            sync_data,
            ..Hooks::default()
        };
        let limits = limits.expect("valid");
        let journal = hooked::open(&dir.path().join(name), limits, hooks).expect("it opens");
        let mut appends = vec![journal.append(filled(0, 200))];
        gate.await_sync();
        appends.extend((1..6).map(|number| journal.append(filled(number, 200))));
        drop(gate);
        for (index, append) in appends.into_iter().enumerate() {
            assert_eq!(committed(append.wait()), index as u64 + 1);
        }
        let one = writes.sizes()[0];
        let expected: Vec<usize> = batches.iter().map(|records| records * one).collect();
        assert_eq!(writes.sizes(), expected, "{name}");
    }
}

#[test]
fn a_full_queue_refuses_and_a_batch_under_way_does_not_count() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let limits = Limits::new(10, 10_240, 2).expect("valid");
    let journal = hooked::open(&dir.path().join("j"), limits, hooks).expect("it opens");
    let under_way = journal.append(numbered(1));
    gate.await_sync();
    let waiting = [journal.append(numbered(2)), journal.append(numbered(3))];
    assert_eq!(
        refused(journal.append(numbered(4)).wait()),
        Refusal::QueueFull
    );
    drop(gate);
    assert_eq!(committed(under_way.wait()), 1);
    let [two, three] = waiting.map(|append| append.wait());
    assert_eq!((committed(two), committed(three)), (2, 3));
}

#[test]
fn nothing_is_shown_before_its_sync_returned() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let path = dir.path().join("j");
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    let mut reader = journal.reader().expect("a reader");
    let append = journal.append(numbered(1));
    gate.await_sync();
    assert!(
        std::fs::metadata(&path).expect("there").len() > 0,
        "written"
    );
    assert_eq!(journal.head().records(), 0);
    assert_eq!(reader.next_record().expect("readable"), None);
    gate.pass();
    assert_eq!(committed(append.wait()), 1);
    assert_eq!(journal.wait_beyond(0, PATIENCE).records(), 1);
    let record = reader.next_record().expect("readable").expect("there");
    assert_eq!((record.sequence.value(), record.offset), (1, 0));
    assert_eq!((record.event_type, record.event_version), ("Numbered", 1));
    assert_eq!(number_of(record.payload), 1);
    assert_eq!(reader.next_record().expect("readable"), None);
    assert_eq!(reader.position(), journal.head());
}

#[test]
fn dropping_an_append_withdraws_nothing_and_closing_commits_what_waits() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let journal = hooked::open(&path, Limits::default(), hooks).expect("it opens");
    let first = journal.append(numbered(1));
    gate.await_sync();
    drop(first);
    drop(journal.append(numbered(2)));
    drop(gate);
    journal.close();
    assert_eq!(refused(journal.append(numbered(3)).wait()), Refusal::Closed);
    assert_eq!(contents(&path), [(1, 1), (2, 2)]);
    // A closed journal gave the file free though its handle lives on.
    assert_eq!(open(&path).expect("free").head().records(), 2);
    // And nobody waits for records that cannot come.
    let begun = Instant::now();
    assert_eq!(journal.wait_beyond(5, PATIENCE).records(), 2);
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_panic_in_one_callback_costs_nobody_else_an_answer() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let journal = hooked::open(&dir.path().join("j"), Limits::default(), hooks).expect("it opens");
    let first = journal.append(numbered(1));
    gate.await_sync();
    let (sender, outcomes) = channel();
    journal.append_with(numbered(2), |_| panic!("planted: a callback panics"));
    journal.append_with(numbered(3), move |outcome| {
        sender.send(outcome).expect("somebody listens");
    });
    drop(gate);
    assert_eq!(committed(first.wait()), 1);
    let third = outcomes.recv_timeout(PATIENCE).expect("an answer");
    assert_eq!(committed(third), 3);
    assert_eq!(committed(journal.append(numbered(4)).wait()), 4);
}

#[test]
fn the_last_handle_may_be_dropped_by_a_callback() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let journal = Arc::new(open(&path).expect("it opens"));
    let (sender, done) = channel();
    let held = Arc::clone(&journal);
    let (release, released) = channel::<()>();
    journal.append_with(numbered(1), move |outcome| {
        _ = released.recv_timeout(PATIENCE);
        drop(held);
        sender.send(outcome).expect("somebody listens");
    });
    drop(journal);
    release.send(()).expect("the callback waits");
    let outcome = done.recv_timeout(PATIENCE).expect("an answer");
    assert_eq!(committed(outcome), 1);
}

/// Polls a future on this thread until it is ready: no runtime is needed.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn an_append_is_a_future_of_any_executor() {
    let dir = tempdir().expect("a directory");
    let (gate, sync_data) = Gate::new();
    let hooks = Hooks {
        sync_data,
        ..Hooks::default()
    };
    let journal = hooked::open(&dir.path().join("j"), Limits::default(), hooks).expect("it opens");
    let append = journal.append(numbered(1));
    gate.await_sync();
    let opener = thread::spawn(move || drop(gate));
    assert_eq!(committed(block_on(append)), 1);
    opener.join().expect("it ended");
    // One that is answered before it is polled.
    let refused_at_once = journal.append(NewRecord {
        version: EventVersion::new(9).expect("valid"),
        ..numbered(2)
    });
    assert!(matches!(
        block_on(refused_at_once),
        AppendOutcome::Refused(_)
    ));
}

#[test]
fn a_reader_is_refused_when_another_file_took_the_path() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let journal = open(&path).expect("it opens");
    std::fs::rename(&path, dir.path().join("moved")).expect("moved");
    assert!(matches!(journal.reader(), Err(OpenError::Open { .. })));
    std::fs::write(&path, b"").expect("another file");
    assert!(matches!(journal.reader(), Err(OpenError::Open { .. })));
}
