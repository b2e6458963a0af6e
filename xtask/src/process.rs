//! Processes that outlive the command that started them.
//!
//! Invariant: a process is signalled only while it is the very one that was started; a process
//! id that the kernel has given to somebody else is seen as gone, never as ours.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::wait;

/// A process id together with the time that process started, in clock ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    /// The process id.
    pub(crate) pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: u64,
}

/// How a process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It was not there any more.
    AlreadyGone,
    /// It ended after the polite signal.
    Ended,
    /// It ignored the polite signal until the deadline and was killed.
    Killed,
}

impl ProcessIdentity {
    /// The identity of this process.
    pub(crate) fn current() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// The identity of a running process.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let stat = read_stat(pid).ok_or_else(|| anyhow!("process {pid} is gone"))?;
        Ok(Self {
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// Whether that process still runs. A zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        read_stat(self.pid)
            .is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.is_zombie)
    }

    /// Sends `polite`, waits up to `limit`, then kills.
    pub(crate) fn stop(&self, polite: Signal, limit: Duration) -> Result<Stopped> {
        if !self.is_alive() {
            return Ok(Stopped::AlreadyGone);
        }
        self.signal(polite)?;
        if wait::until("the end of a process", limit, || Ok(!self.is_alive())).is_ok() {
            return Ok(Stopped::Ended);
        }
        self.signal(Signal::KILL)?;
        wait::until(
            &format!("the end of killed process {}", self.pid),
            Duration::from_secs(10),
            || Ok(!self.is_alive()),
        )?;
        Ok(Stopped::Killed)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| anyhow!("{} is no process id", self.pid))?;
        match kill_process(pid, signal) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno).with_context(|| format!("signal process {}", self.pid)),
        }
    }
}

/// Starts a process of its own group that writes to `log` and survives this command.
pub(crate) fn spawn_detached(command: &mut Command, log: &Path) -> Result<ProcessIdentity> {
    let out = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("open {}", log.display()))?;
    let err = out.try_clone().context("share the log file")?;
    let child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    ProcessIdentity::of(child.id())
}

/// The last lines of a log, for an error message.
pub(crate) fn log_tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// Runs a command to its end; a failure carries the end of what it printed.
pub(crate) fn run_quietly(command: &mut Command, what: &str) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{what}: start {}", command.get_program().display()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = stdout.lines().chain(stderr.lines()).collect();
    let tail = said[said.len().saturating_sub(15)..].join("\n");
    Err(anyhow!("{what} failed ({}):\n{tail}", output.status))
}

/// The absolute path of a program on `PATH`.
pub(crate) fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

struct Stat {
    start_ticks: u64,
    is_zombie: bool,
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name, in parentheses, may itself hold spaces and parentheses.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    Some(Stat {
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 0";
        let parsed = parse_stat(stat).unwrap();
        assert_eq!(parsed.start_ticks, 4711);
        assert!(!parsed.is_zombie);
    }

    #[test]
    fn another_process_with_the_same_id_is_not_ours() {
        let mut own = ProcessIdentity::current().unwrap();
        assert!(own.is_alive());
        own.start_ticks += 1;
        assert!(!own.is_alive());
        assert_eq!(
            own.stop(Signal::KILL, Duration::ZERO).unwrap(),
            Stopped::AlreadyGone
        );
    }

    #[test]
    fn a_started_process_is_stopped_by_the_polite_signal() {
        let folder = tempfile::tempdir().unwrap();
        let identity = spawn_detached(
            Command::new("sleep").arg("600"),
            &folder.path().join("sleep.log"),
        )
        .unwrap();
        assert!(identity.is_alive());
        let stopped = identity
            .stop(Signal::TERM, Duration::from_secs(20))
            .unwrap();
        assert_eq!(stopped, Stopped::Ended);
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_failed_command_carries_what_it_said() {
        let error = run_quietly(
            Command::new("sh").args(["-c", "echo because >&2; exit 3"]),
            "the thing",
        )
        .unwrap_err();
        assert!(error.to_string().contains("because"), "{error}");
    }
}
