//! One `countersign serve` process that faults happen to.
//!
//! Invariant: every signal is followed by a proof from the kernel that it took effect, and no
//! process outlives its value.

use crate::support::{Running, countersign, eventually};
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The setting that tells the sessions of one process from others'.
pub(crate) const INCARNATION: &str = "faults.incarnation";

/// How long a process may take to show the effect of a signal.
const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    profile: PathBuf,
    log: PathBuf,
    failpoints: Option<&'static str>,
    running: Running,
    incarnation: i32,
    /// Where this process's part of the log begins.
    log_begins: u64,
}

impl Server {
    pub(crate) fn start(profile: &Path, log: &Path, failpoints: Option<&'static str>) -> Self {
        let log_begins = log_length(log);
        let (running, incarnation) = spawn(profile, log, failpoints);
        Self {
            profile: profile.to_owned(),
            log: log.to_owned(),
            failpoints,
            running,
            incarnation,
            log_begins,
        }
    }

    /// Whether its relay was started; until then a long stop may end it, as its start has a bound.
    pub(crate) fn has_started(&self) -> bool {
        let mut text = String::new();
        let read = std::fs::File::open(&self.log).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.log_begins))?;
            file.take(64 << 10).read_to_string(&mut text)
        });
        read.is_ok() && text.contains("relay started")
    }

    /// What the database's history calls this process.
    pub(crate) fn incarnation(&self) -> i32 {
        self.incarnation
    }

    /// Kills the process, which may be stopped, and starts another in its place.
    pub(crate) fn kill_and_restart(&mut self) {
        self.must_run();
        self.running.0.kill().expect("SIGKILL");
        let status = self.running.0.wait().expect("reaped");
        assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
        self.log_begins = log_length(&self.log);
        (self.running, self.incarnation) = spawn(&self.profile, &self.log, self.failpoints);
    }

    pub(crate) async fn stop(&mut self) {
        self.must_run();
        self.signal("-STOP");
        eventually("the process is stopped", SOON, async || {
            (process_state(self.running.0.id()) == 'T').then_some(())
        })
        .await;
    }

    /// Lets a stopped process go on; it was stopped until now.
    pub(crate) async fn go_on(&mut self) {
        let state = process_state(self.running.0.id());
        assert_eq!(state, 'T', "it did not stay stopped");
        self.signal("-CONT");
        eventually("the process goes on", SOON, async || {
            (process_state(self.running.0.id()) != 'T').then_some(())
        })
        .await;
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident(&mut self) -> u64 {
        self.must_run();
        let file = format!("/proc/{}/status", self.running.0.id());
        let status = std::fs::read_to_string(file).expect("the process's status");
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .expect("VmRSS")
    }

    /// Fails with the end of the log when the process ended by itself.
    pub(crate) fn must_run(&mut self) {
        let status = self.running.0.try_wait().expect("child");
        assert!(status.is_none(), "{status:?}: {}", self.last_lines());
    }

    /// An orderly stop, which must succeed.
    pub(crate) async fn terminate(mut self) {
        self.must_run();
        self.signal("-TERM");
        let status = eventually("an orderly stop", SOON, async || {
            self.running.0.try_wait().expect("child")
        })
        .await;
        assert!(status.success(), "{status}: {}", self.last_lines());
    }

    pub(crate) fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn signal(&self, signal: &str) {
        send(self.running.0.id(), signal);
    }
}

/// Sends a signal to a process that this test started.
pub(crate) fn send(pid: u32, signal: &str) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status()
        .expect("kill");
    assert!(status.success(), "{signal} was not sent");
}

/// The kernel's letter for what a process does.
pub(crate) fn process_state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it is in parentheses and may hold anything.
    stat.rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next())
        .unwrap_or('X')
}

fn log_length(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |file| file.len())
}

fn spawn(profile: &Path, log: &Path, failpoints: Option<&str>) -> (Running, i32) {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let incarnation = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut command = countersign();
    // A setting of the sessions, for the history's trigger.
    command.env("PGOPTIONS", format!("-c {INCARNATION}={incarnation}"));
    if let Some(failpoints) = failpoints {
        command.env("FAILPOINTS", failpoints);
    }
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .expect("log");
    let child = command
        .args(["serve", "--profile"])
        .arg(profile)
        .env("NO_COLOR", "1")
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("starts");
    (Running(child), incarnation)
}
