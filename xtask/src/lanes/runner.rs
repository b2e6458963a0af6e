//! Running one lane's command while its output is shown and counted.
//!
//! Invariant: when this process is told to stop, the command and everything it started are
//! told too, and the lane counts as failed.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::tally::Tally;
use crate::interruption::Interruption;
use crate::wait;

/// How a lane ended.
#[derive(Clone, Debug)]
pub(crate) struct LaneResult {
    /// The name in the summary.
    pub(crate) name: String,
    /// Whether the command ended well and ran what it had to.
    pub(crate) passed: bool,
    /// Its tests.
    pub(crate) tally: Tally,
    /// How long it took.
    pub(crate) took: Duration,
}

/// What a lane's command counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Test harnesses, at least one test among them.
    Tests,
    /// Test harnesses that may have nothing to run.
    OptionalTests,
    /// One check, by its exit code.
    OneCheck,
}

/// Runs one lane to its end.
pub(crate) fn run(
    name: &str,
    command: &mut Command,
    counting: Counting,
    interruption: &Interruption,
) -> Result<LaneResult> {
    announce(name);
    let started = Instant::now();
    let mut tally = Tally::default();
    let ended_well = if interruption.happened() {
        false
    } else {
        let (ended_well, counted) = run_and_count(command, interruption)?;
        tally = counted;
        ended_well
    };
    let mut passed = ended_well && tally.failed == 0;
    match counting {
        Counting::OneCheck => tally = Tally::of_check(passed),
        Counting::Tests if passed && tally.passed == 0 => {
            println!("lane {name} ran no test");
            passed = false;
        }
        Counting::Tests | Counting::OptionalTests => {}
    }
    // A build that failed prints no result line and still is a failure to be counted.
    if !passed && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(LaneResult {
        name: name.to_owned(),
        passed,
        tally,
        took: started.elapsed(),
    })
}

/// Prints the heading of a lane.
pub(crate) fn announce(name: &str) {
    println!("\n=== {name}");
}

fn run_and_count(command: &mut Command, interruption: &Interruption) -> Result<(bool, Tally)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    let stdout = child
        .stdout
        .take()
        .ok_or_else(|| anyhow!("no standard output"))?;
    let reader = std::thread::spawn(move || show_and_count(stdout));
    let ended = wait::until("the end of a lane", Duration::from_secs(3 * 3600), || {
        if interruption.happened() {
            bail!("interrupted");
        }
        Ok(child.try_wait().context("wait for a lane")?.is_some())
    });
    if let Err(error) = &ended {
        println!("{error:#}: stop the lane");
        stop_group(&mut child)?;
    }
    let status = child.wait().context("wait for a lane")?;
    let tally = reader
        .join()
        .map_err(|_| anyhow!("the reader of a lane's output panicked"))??;
    Ok((ended.is_ok() && status.success(), tally))
}

fn show_and_count(stdout: std::process::ChildStdout) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader
            .read_until(b'\n', &mut line)
            .context("read a lane's output")?
            == 0
        {
            return Ok(tally);
        }
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        tally.read_line(text.trim_end());
    }
}

fn stop_group(child: &mut Child) -> Result<()> {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    for (signal, patience) in [(Signal::TERM, 15), (Signal::KILL, 15)] {
        match kill_process_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => return Err(errno).context("stop a lane"),
        }
        let ended = wait::until("the end of a lane", Duration::from_secs(patience), || {
            Ok(child.try_wait().context("wait for a lane")?.is_some())
        });
        if ended.is_ok() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Interruption {
        Interruption::unwatched()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_lane_counts_what_its_command_prints() {
        let line = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured";
        let result = run(
            "x",
            &mut shell(&format!("echo '{line}'")),
            Counting::Tests,
            &never(),
        )
        .unwrap();
        assert!(result.passed);
        assert_eq!(result.tally.passed, 3);
    }

    #[test]
    fn a_lane_that_ran_no_test_fails() {
        let result = run("x", &mut shell("true"), Counting::Tests, &never()).unwrap();
        assert!(!result.passed);
        assert_eq!(result.tally.failed, 1);
        assert!(
            run("x", &mut shell("true"), Counting::OptionalTests, &never())
                .unwrap()
                .passed
        );
    }

    #[test]
    fn a_failed_command_fails_the_lane_whatever_it_counted() {
        let line = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured";
        let script = format!("echo '{line}'; exit 1");
        let result = run("x", &mut shell(&script), Counting::Tests, &never()).unwrap();
        assert!(!result.passed);
        assert_eq!(
            result.tally,
            Tally {
                passed: 3,
                failed: 1,
                ignored: 0
            }
        );
    }

    #[test]
    fn an_interruption_stops_what_the_command_started() {
        let interruption = never();
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", pid_file.display());
        let flag = interruption.clone();
        let path = pid_file.clone();
        let trigger = std::thread::spawn(move || {
            wait::until("the grandchild", Duration::from_secs(20), || {
                Ok(std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')))
            })
            .unwrap();
            flag.happen();
        });
        let result = run("x", &mut shell(&script), Counting::OneCheck, &interruption).unwrap();
        trigger.join().unwrap();
        assert!(!result.passed);
        let pid = std::fs::read_to_string(&pid_file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        wait::until("the grandchild's end", Duration::from_secs(20), || {
            Ok(
                crate::process::ProcessIdentity::of(pid)
                    .map_or(true, |process| !process.is_alive()),
            )
        })
        .unwrap();
    }
}
