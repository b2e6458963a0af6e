//! A disabled profile: no connection, no file, no socket that listens, no timer, and no thread
//! beyond the runtime's own.

use crate::support::{countersign, eventually, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

#[tokio::test]
async fn a_disabled_process_holds_no_resource() {
    let folder = tempfile::tempdir().expect("folder");
    let log = folder.path().join("log");
    let mut child = countersign()
        .args(["serve", "--profile", "config/profiles/disabled.toml"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).expect("log"))
        .spawn()
        .expect("starts");
    eventually(
        "it says that nothing is open",
        Duration::from_secs(20),
        async || {
            let text = fs::read_to_string(&log).expect("log");
            text.contains("DISABLED: nothing is open").then_some(())
        },
    )
    .await;
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let held = descriptors(&process);
    let own = log.canonicalize().expect("log");
    let files: Vec<_> = held
        .iter()
        .filter(|target| target.is_absolute() && target.is_file() && **target != own)
        .collect();
    assert!(files.is_empty(), "{files:?}");
    let connections: Vec<_> = held
        .iter()
        .filter_map(|target| socket(target))
        .filter(|inode| internet_sockets().contains(inode))
        .collect();
    assert!(connections.is_empty(), "{connections:?}");
    let listening: Vec<_> = held
        .iter()
        .filter_map(|target| socket(target))
        .filter(|inode| listening_local_sockets().contains(inode))
        .collect();
    assert!(listening.is_empty(), "{listening:?}");
    let timers = held
        .iter()
        .filter(|target| target.ends_with("anon_inode:[timerfd]"));
    assert_eq!(timers.count(), 0);
    let run = root().join("config/profiles/run/disabled.sock");
    assert!(!run.exists() && !run.with_extension("sock.lock").exists());
    // The process's own thread, the log's, and one worker a core: what any process has that runs
    // nothing.
    let cores = std::thread::available_parallelism().expect("cores").get();
    let threads = fs::read_dir(process.join("task")).expect("threads").count();
    assert!(threads <= cores + 2, "{threads} threads on {cores} cores");
    // Tokio's own workers carry the runtime's name; librdkafka and SQLite name theirs otherwise.
    for thread in fs::read_dir(process.join("task")).expect("threads") {
        let name = fs::read_to_string(thread.expect("thread").path().join("comm")).expect("name");
        assert!(
            name.starts_with("tokio-") || name.starts_with("countersign"),
            "thread {name}"
        );
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

fn descriptors(process: &Path) -> Vec<PathBuf> {
    fs::read_dir(process.join("fd"))
        .expect("descriptors")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .collect()
}

fn socket(target: &Path) -> Option<String> {
    let inode = target.to_str()?.strip_prefix("socket:[")?;
    inode.strip_suffix(']').map(str::to_owned)
}

/// Inodes of every TCP and UDP socket of this network namespace.
fn internet_sockets() -> BTreeSet<String> {
    ["tcp", "tcp6", "udp", "udp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|table| {
            table
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Inodes of every local socket that listens.
fn listening_local_sockets() -> BTreeSet<String> {
    fs::read_to_string("/proc/net/unix")
        .expect("the table of local sockets")
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            // Flags carry 0x10000 for a socket that accepts connections.
            let listens = u32::from_str_radix(fields.get(3)?, 16).ok()? & 0x1_0000 != 0;
            listens.then(|| fields.get(6).map(|inode| (*inode).to_owned()))?
        })
        .collect()
}
