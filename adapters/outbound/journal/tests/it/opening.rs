//! What may be opened, by whom, and what is refused.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbound_journal::{Layer, Limits, OfflineReader, OpenError, Schemas};
use tempfile::tempdir;

use crate::hooked::{self, Hooks};
use crate::numbered::{self, contents, numbered, open, registry, rejection};

fn offline(path: &Path) -> Result<OfflineReader, OpenError> {
    OfflineReader::open(path, Schemas::Registry(registry()))
}

#[test]
fn a_new_journal_is_an_empty_private_file_and_opens_again() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("events.journal");
    for _ in 0..2 {
        let journal = open(&path).expect("it opens");
        assert_eq!(journal.head().records(), 0);
    }
    let metadata = fs::metadata(&path).expect("it is there");
    assert_eq!(metadata.len(), 0);
    assert_eq!(metadata.permissions().mode() & 0o077, 0);
}

#[test]
fn history_is_continued_after_a_reopen() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    numbered::write(&path, [10, 20]);
    let journal = open(&path).expect("it opens");
    assert_eq!(journal.head().records(), 2);
    let third = journal.append(numbered(30)).wait();
    assert_eq!(numbered::committed(third), 3);
    drop(journal);
    assert_eq!(contents(&path), [(1, 10), (2, 20), (3, 30)]);
}

#[test]
fn an_offline_reader_does_not_create_what_is_not_there() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    match offline(&path) {
        Err(OpenError::Open { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::NotFound);
        }
        other => panic!("{other:?}"),
    }
    assert!(!path.exists());
}

#[test]
fn a_second_writer_is_refused_under_every_name_of_the_file() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
    let journal = open(&path).expect("the first writer");
    fs::hard_link(&path, &hard).expect("a link");
    symlink(&path, &soft).expect("a link");
    for name in [&path, &hard, &soft] {
        assert!(matches!(open(name), Err(OpenError::AlreadyOpen { .. })));
    }
    drop(journal);
    open(&soft).expect("free again, and a symbolic link to a journal is fine");
}

#[test]
fn a_lock_of_somebody_else_is_respected_and_a_refused_open_claims_nothing() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    numbered::write(&path, [1]);
    let other = File::options().write(true).open(&path).expect("it opens");
    other.lock().expect("an exclusive lock");
    assert!(matches!(open(&path), Err(OpenError::Locked { .. })));
    assert!(matches!(offline(&path), Err(OpenError::Locked { .. })));
    other.unlock().expect("unlocked");
    assert_eq!(open(&path).expect("free again").head().records(), 1);
}

#[test]
fn readers_share_a_file_that_nobody_writes_and_keep_a_writer_out() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    numbered::write(&path, [1, 2]);
    let first = offline(&path).expect("a reader");
    assert_eq!(first.head().records(), 2);
    assert_eq!(contents(&path), [(1, 1), (2, 2)]);
    assert!(matches!(open(&path), Err(OpenError::Locked { .. })));
    drop(first);

    let journal = open(&path).expect("a writer");
    assert!(matches!(offline(&path), Err(OpenError::Locked { .. })));
    drop(journal);
}

#[test]
fn only_regular_files_are_opened() {
    let dir = tempdir().expect("a directory");
    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .expect("mkfifo runs");
    assert!(made.success());
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let to_device = dir.path().join("to-device");
    symlink("/dev/zero", &to_device).expect("a link");
    let to_fifo = dir.path().join("to-fifo");
    symlink(&fifo, &to_fifo).expect("a link");

    for (path, expected) in [
        (fifo.as_path(), "a FIFO"),
        (to_fifo.as_path(), "a FIFO"),
        (dir.path(), "a directory"),
        (Path::new("/dev/null"), "a device"),
        (to_device.as_path(), "a device"),
        (socket.as_path(), "a socket"),
    ] {
        for opened in [open(path).map(drop), offline(path).map(drop)] {
            match opened {
                Err(OpenError::NotARegularFile { found, .. }) => assert_eq!(found, expected),
                other => panic!("{}: {other:?}", path.display()),
            }
        }
    }
}

#[test]
fn a_symbolic_link_to_nothing_creates_nothing() {
    let dir = tempdir().expect("a directory");
    let (link, target) = (dir.path().join("link"), dir.path().join("target"));
    symlink(&target, &link).expect("a link");
    assert!(matches!(open(&link), Err(OpenError::Open { .. })));
    assert!(!target.exists());
}

#[test]
fn every_changed_byte_of_a_file_is_refused_and_left_as_it_is() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    numbered::write(&path, [1, -70_000, 3]);
    let whole = fs::read(&path).expect("readable");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x01;
        fs::write(&path, &damaged).expect("writable");
        let refused = rejection(open(&path));
        assert!(refused.offset <= at as u64, "{refused:?}");
        assert_ne!(refused.layer(), Layer::Schema);
        assert_eq!(fs::read(&path).expect("readable"), damaged);
    }
}

#[test]
fn a_torn_tail_is_refused_with_its_offset_and_not_repaired() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    numbered::write(&path, [1]);
    let one = fs::metadata(&path).expect("there").len();
    numbered::write(&path, [2]);
    let whole = fs::read(&path).expect("readable");
    for length in 0..whole.len() as u64 {
        fs::write(&path, &whole[..length as usize]).expect("writable");
        if length == 0 || length == one {
            let journal = open(&path).expect("whole records open, shorter");
            assert_eq!(journal.head().records(), u64::from(length == one));
            continue;
        }
        let refused = rejection(open(&path));
        assert!(refused.is_truncated_tail(), "{refused:?}");
        assert_eq!(refused.offset, if length < one { 0 } else { one });
        assert_eq!(fs::metadata(&path).expect("there").len(), length);
    }
}

#[test]
fn a_sync_that_fails_at_open_refuses_the_history_and_latches_the_file() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    numbered::write(&path, [1]);
    let hooks = Hooks {
        sync_all: Box::new(|_| Err(io::Error::other("planted"))),
        ..Hooks::default()
    };
    assert!(matches!(
        hooked::open(&path, Limits::default(), hooks),
        Err(OpenError::Sync { .. })
    ));
    // A second sync would report success without having written anything.
    assert!(matches!(open(&path), Err(OpenError::Latched { .. })));
}

#[test]
fn file_and_directory_are_synced_before_history_is_read() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    fs::write(&path, b"not a journal").expect("writable");
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&syncs);
    let hooks = Hooks {
        sync_all: Box::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }),
        ..Hooks::default()
    };
    let refused = rejection(hooked::open(&path, Limits::default(), hooks));
    assert_eq!(refused.layer(), Layer::Framing);
    assert_eq!(syncs.load(Ordering::SeqCst), 1);
}
