//! `cargo xtask bench NAME`: one benchmark on services of this run, or on those that the environment
//! names.
//!
//! Invariant: the program that measures is built before any service is started, in release mode unless
//! only its working is of interest, and services that this run started are stopped however it ends.

use std::process::Command;

use anyhow::Result;

use super::runner::{self, Counting, LaneResult};
use super::summary;
use crate::interruption::Interruption;
use crate::process::ProcessIdentity;
use crate::services::provisioner::{Provisioner, Wish};
use crate::services::{self, Endpoints, User};
use crate::workspace;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bench {
    /// Append, drain and latency of the outbox on PostgreSQL and Kafka.
    Outbox,
}

/// Runs a benchmark; `false` when it failed. `quick` measures little and is what CI runs.
pub(crate) fn run(bench: Bench, quick: bool) -> Result<bool> {
    let interruption = Interruption::watch()?;
    let results = lanes(bench, quick, &interruption)?;
    let (table, passed) = summary::table(&results);
    println!("{table}");
    Ok(passed)
}

/// The lanes of one benchmark, for a caller with more lanes.
pub(crate) fn lanes(
    bench: Bench,
    quick: bool,
    interruption: &Interruption,
) -> Result<Vec<LaneResult>> {
    let built = runner::run(
        "build of the benchmark",
        command(bench, quick).arg("--no-run"),
        Counting::OneCheck,
        interruption,
    )?;
    let mut results = vec![built];
    let Provisioner::Explicit(endpoints) = Provisioner::choose(Wish::Any)? else {
        let user = User::TestRun(ProcessIdentity::current()?);
        services::up(user)?;
        let measured = services::endpoints()
            .and_then(|endpoints| measure(bench, quick, &endpoints, interruption));
        services::release(user)?;
        results.push(measured?);
        return Ok(results);
    };
    results.push(measure(bench, quick, &endpoints, interruption)?);
    Ok(results)
}

fn measure(
    bench: Bench,
    quick: bool,
    endpoints: &Endpoints,
    interruption: &Interruption,
) -> Result<LaneResult> {
    let mut command = command(bench, quick);
    command
        .env(services::POSTGRES_URL, &endpoints.postgres_url)
        .env(services::KAFKA_BOOTSTRAP, &endpoints.kafka_bootstrap);
    command.arg("--");
    if quick {
        command.arg("--quick");
    }
    runner::run(
        match bench {
            Bench::Outbox => "benchmark of the outbox",
        },
        &mut command,
        Counting::OneCheck,
        interruption,
    )
}

fn command(bench: Bench, quick: bool) -> Command {
    let mut command = Command::new(workspace::cargo());
    command.current_dir(workspace::root());
    match bench {
        Bench::Outbox => command.args(["bench", "-p", "app-bootstrap", "--bench", "outbox"]),
    };
    if quick {
        // Everything is built for the tests already.
        command.args(["--profile", "dev"]);
    }
    command
}
