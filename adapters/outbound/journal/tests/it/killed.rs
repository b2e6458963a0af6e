//! SIGKILL in the middle of appending.
//!
//! SIGKILL ends the process and keeps the page cache: this shows that acknowledged records are in
//! the file and that a killed writer's file opens, or is refused as torn behind them. It does not
//! show that they were on the disk; that is for lost power.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use outbound_journal::OpenError;
use tempfile::tempdir;

use crate::hooked::PATIENCE;
use crate::numbered::{contents, open, rejection};

/// The example that cargo builds beside the tests: it appends for ever, and prints what was
/// acknowledged.
fn appender() -> PathBuf {
    let tests = std::env::current_exe().expect("this binary");
    let profile = tests.ancestors().nth(2).expect("the profile's folder");
    profile.join("examples/append_numbers")
}

#[test]
fn every_acknowledged_record_of_a_killed_process_is_there() {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("j");
    let mut last_acknowledged = 0;
    for round in 1..=4_u64 {
        let target = last_acknowledged + 7 * round;
        let mut child = Command::new(appender())
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let begun = Instant::now();
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut acknowledge = |line: Option<std::io::Result<String>>| {
            last_acknowledged = line?.expect("text").parse().expect("a sequence");
            Some(last_acknowledged)
        };
        loop {
            assert!(begun.elapsed() < PATIENCE, "the child keeps appending");
            let reached = acknowledge(lines.next()).expect("the child lives");
            if reached >= target {
                break;
            }
        }
        assert!(
            matches!(open(&path), Err(OpenError::Locked { .. })),
            "the child's lock keeps this process out"
        );
        child.kill().expect("killed");
        child.wait().expect("gone");
        while acknowledge(lines.next()).is_some() {}

        // A kill may also cut the last batch's write where its bytes cross a page.
        if let Err(OpenError::History { .. }) = open(&path) {
            let torn = rejection(open(&path));
            assert!(torn.is_truncated_tail(), "round {round}: {torn:?}");
            assert!(torn.sequence > last_acknowledged, "round {round}");
            let file = File::options().write(true).open(&path).expect("it opens");
            file.set_len(torn.offset)
                .expect("the next round needs a journal");
        }
        // Whole records of that batch may be there unacknowledged; they count now.
        let records = contents(&path);
        let count = records.len() as u64;
        assert!(count >= last_acknowledged, "round {round}");
        assert!(
            count <= last_acknowledged + 5,
            "no more than the appends of one turn"
        );
        assert!(records.iter().map(|(sequence, _)| *sequence).eq(1..=count));
        last_acknowledged = count;
    }
}
