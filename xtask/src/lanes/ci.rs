//! `cargo xtask ci`: everything that a change must pass, in one run.
//!
//! Invariant: a lane that cannot be set up is a failed lane with the reason printed.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum as _;

use super::bench::{Bench, BenchRun};
use super::runner::{self, Counting, LaneResult};
use super::tally::Tally;
use super::{bench, contracts, deny, features, summary, test};
use crate::interruption::Interruption;
use crate::metadata::Metadata;
use crate::services::engine::EngineAddress;
use crate::services::local_engine::{self, LocalEngine};
use crate::{services, workspace};

/// The packages whose tests talk to the services most directly.
const CONTAINER_PACKAGES: [&str; 2] = ["outbound-persistence-postgres", "outbound-messaging-kafka"];

/// A part of the run that can be asked for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// `cargo fmt --check`.
    Format,
    /// Clippy on everything, and on the deployable build alone.
    Clippy,
    /// cargo-deny.
    Deny,
    /// Every lane of `cargo xtask test`.
    Test,
    /// The benchmarks, little of each.
    Bench,
    /// The demo, and the lock of contract versions against its history.
    Contracts,
    /// The packages closest to the services, on containers.
    Containers,
}

/// Runs the parts, all of them when none is named; `false` when a lane failed.
pub(crate) fn run(parts: &[Part]) -> Result<bool> {
    let parts = match parts {
        [] => Part::value_variants(),
        named => named,
    };
    let interruption = Interruption::watch()?;
    let mut results = Vec::new();
    for part in parts {
        results.extend(or_failed(&format!("{part:?}"), || match part {
            Part::Format => format(&interruption),
            Part::Clippy => clippy(&interruption),
            Part::Deny => deny::lanes(&interruption),
            Part::Test => test::lanes(&interruption),
            Part::Bench => bench::lanes(&BenchRun::quick(Bench::Outbox), &interruption),
            Part::Contracts => contracts::lanes(&interruption),
            Part::Containers => containers(&interruption),
        }));
    }
    let (table, passed) = summary::table(&results);
    println!("{table}");
    Ok(passed)
}

fn cargo() -> Command {
    let mut command = Command::new(workspace::cargo());
    command.current_dir(workspace::root());
    command
}

fn format(interruption: &Interruption) -> Result<Vec<LaneResult>> {
    Ok(vec![runner::run(
        "format",
        cargo().args(["fmt", "--all", "--check"]),
        Counting::OneCheck,
        interruption,
    )?])
}

fn clippy(interruption: &Interruption) -> Result<Vec<LaneResult>> {
    let mut features = features::all(&Metadata::load()?);
    features.push("xtask/containers".to_owned());
    Ok(vec![
        runner::run(
            "clippy, all targets and features",
            cargo()
                .args(["clippy", "--workspace", "--all-targets"])
                .args(features::arguments(&features))
                .args(["--", "-D", "warnings"]),
            Counting::OneCheck,
            interruption,
        )?,
        runner::run(
            "clippy of the deployable build",
            cargo()
                .args(["clippy", "-p", "app-bootstrap", "--no-default-features"])
                .args(["--lib", "--bins", "--", "-D", "warnings"]),
            Counting::OneCheck,
            interruption,
        )?,
    ])
}

/// The testcontainers way, on an engine that answers or on one started here.
fn containers(interruption: &Interruption) -> Result<Vec<LaneResult>> {
    let answering =
        EngineAddress::from_environment().filter(|address| address.api_version().is_some());
    let own = match &answering {
        Some(_) => None,
        None => {
            runner::announce("a Docker engine of our own");
            Some(LocalEngine::start()?)
        }
    };
    let mut command = cargo();
    command
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "test",
            "--containers",
        ])
        .env_remove(services::POSTGRES_URL)
        .env_remove(services::KAFKA_BOOTSTRAP);
    for package in CONTAINER_PACKAGES {
        command.args(["--package", package]);
    }
    if let Some(engine) = &own {
        command
            .env("DOCKER_HOST", engine.address().url())
            .env(
                "COUNTERSIGN_TEST_POSTGRES_IMAGE",
                local_engine::POSTGRES_IMAGE,
            )
            .env("COUNTERSIGN_TEST_KAFKA_IMAGE", local_engine::KAFKA_IMAGE);
    }
    Ok(vec![runner::run(
        "tests on containers",
        &mut command,
        Counting::Tests,
        interruption,
    )?])
}

fn or_failed(name: &str, lanes: impl FnOnce() -> Result<Vec<LaneResult>>) -> Vec<LaneResult> {
    let started = Instant::now();
    lanes().unwrap_or_else(|error| {
        println!("lane {name} could not run: {error:#}");
        vec![LaneResult {
            name: name.to_owned(),
            passed: false,
            tally: Tally::of_check(false),
            took: started.elapsed(),
        }]
    })
}
