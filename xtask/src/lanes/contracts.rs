//! The product's own first command, and its lock of contract versions against its history.
//!
//! Invariant: the lock is compared with every version of it that was ever committed, so that no
//! detour over several commits can change a hash. A clone without that history says so.

use std::process::Command;

use anyhow::{Context, Result};

use super::runner::{self, Counting, LaneResult};
use crate::interruption::Interruption;
use crate::process::run_quietly;
use crate::workspace;

const LOCK: &str = "config/messaging/contracts.lock";

/// `cargo run -- demo`, then `contracts check` against each earlier lock.
pub(crate) fn lanes(interruption: &Interruption) -> Result<Vec<LaneResult>> {
    let mut results = vec![runner::run(
        "the demo",
        countersign().arg("demo"),
        Counting::OneCheck,
        interruption,
    )?];
    let shallow = run_quietly(
        git().args(["rev-parse", "--is-shallow-repository"]),
        "git rev-parse",
    )?;
    if shallow.trim() != "false" {
        let deepened = run_quietly(
            git().args(["fetch", "--unshallow"]),
            "git fetch --unshallow",
        );
        if let Err(error) = deepened {
            println!("this clone is shallow and cannot be deepened: {error:#}");
            println!("contracts lock: NOT COMPARED with what lies before this clone");
        }
    }
    let folder = workspace::root().join("target/contracts-lock");
    std::fs::create_dir_all(&folder).context("make a folder for earlier locks")?;
    let revisions = run_quietly(
        git().args(["log", "--format=%H", "--", LOCK]),
        "git log of the contracts lock",
    )?;
    for revision in revisions.lines() {
        let earlier = run_quietly(
            git().args(["show", &format!("{revision}:{LOCK}")]),
            "git show of an earlier contracts lock",
        )?;
        let file = folder.join(format!("{revision}.lock"));
        std::fs::write(&file, earlier).context("write an earlier lock")?;
        results.push(runner::run(
            &format!("the contracts lock has grown from {}", short(revision)),
            countersign()
                .args(["contracts", "check", "--previous"])
                .arg(&file),
            Counting::OneCheck,
            interruption,
        )?);
    }
    Ok(results)
}

fn short(revision: &str) -> &str {
    revision.get(..10).unwrap_or(revision)
}

fn countersign() -> Command {
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(workspace::root())
        .args(["run", "--quiet", "--"]);
    command
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(workspace::root());
    command
}
