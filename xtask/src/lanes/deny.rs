//! cargo-deny: licences, bans and sources always; advisories where their database can be had.
//!
//! Invariant: whether the advisories were checked is always said, and an advisory that was
//! found fails the lane.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::runner::{self, Counting, LaneResult};
use crate::interruption::Interruption;
use crate::process::{find_program, run_quietly};
use crate::{wait, workspace};

const VERSION: &str = "0.20.2";

/// How long the advisory database may take before it counts as out of reach.
const DATABASE_PATIENCE: Duration = Duration::from_secs(120);

/// Both lanes.
pub(crate) fn lanes(interruption: &Interruption) -> Result<Vec<LaneResult>> {
    let deny = installed()?;
    let mut results = vec![runner::run(
        "cargo-deny: bans, licences, sources",
        Command::new(&deny).current_dir(workspace::root()).args([
            "--all-features",
            "check",
            "bans",
            "licenses",
            "sources",
        ]),
        Counting::OneCheck,
        interruption,
    )?];
    runner::announce("cargo-deny: advisory database");
    if database_fetched(&deny)? {
        println!("advisories: the database was fetched, so they are checked");
        results.push(runner::run(
            "cargo-deny: advisories",
            Command::new(&deny).current_dir(workspace::root()).args([
                "--all-features",
                "check",
                "--disable-fetch",
                "advisories",
            ]),
            Counting::OneCheck,
            interruption,
        )?);
    } else {
        println!("advisories: NOT CHECKED, the database is out of reach of this machine");
    }
    Ok(results)
}

fn installed() -> Result<PathBuf> {
    if let Some(found) = find_program("cargo-deny") {
        return Ok(found);
    }
    let root = workspace::tools();
    let program = root.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    println!("install cargo-deny {VERSION} into {}", root.display());
    run_quietly(
        Command::new(workspace::cargo())
            .args([
                "install",
                "--quiet",
                "--locked",
                "cargo-deny",
                "--version",
                VERSION,
                "--root",
            ])
            .arg(&root)
            // Built apart, so that its artifacts go away with the build.
            .env_remove("CARGO_TARGET_DIR"),
        "cargo install cargo-deny",
    )?;
    Ok(program)
}

fn database_fetched(deny: &PathBuf) -> Result<bool> {
    let mut child = Command::new(deny)
        .current_dir(workspace::root())
        .args(["fetch", "db"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .spawn()
        .context("start cargo-deny")?;
    let mut fetched = false;
    let ended = wait::until("the advisory database", DATABASE_PATIENCE, || {
        let status = child.try_wait().context("wait for cargo-deny")?;
        fetched = status.is_some_and(|status| status.success());
        Ok(status.is_some())
    });
    if let Err(error) = ended {
        println!("{error:#}");
        child.kill().context("stop cargo-deny")?;
        child.wait().context("wait for cargo-deny")?;
    }
    Ok(fetched)
}
