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
use crate::services::connect::ConnectWorker;
use crate::services::provisioner::{Provisioner, Wish};
use crate::services::{self, Endpoints, User};
use crate::workspace;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bench {
    /// Append, drain and latency of the outbox on PostgreSQL and Kafka.
    Outbox,
}

/// How a benchmark is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchRun {
    /// What to measure.
    pub(crate) bench: Bench,
    /// Measure little, with the build that tests use.
    pub(crate) quick: bool,
    /// Measure the peer beside it too.
    pub(crate) peers: bool,
    /// Events of the large drains; the benchmark's own number when nothing is said.
    pub(crate) events: Option<u32>,
}

impl BenchRun {
    /// What CI runs: little of it, to see that the benchmark works.
    pub(crate) fn quick(bench: Bench) -> Self {
        Self {
            bench,
            quick: true,
            peers: false,
            events: None,
        }
    }
}

/// Runs a benchmark; `false` when it failed.
pub(crate) fn run(request: &BenchRun) -> Result<bool> {
    let interruption = Interruption::watch()?;
    let results = lanes(request, &interruption)?;
    let (table, passed) = summary::table(&results);
    println!("{table}");
    Ok(passed)
}

/// The lanes of one benchmark, for a caller with more lanes.
pub(crate) fn lanes(request: &BenchRun, interruption: &Interruption) -> Result<Vec<LaneResult>> {
    let built = runner::run(
        "build of the benchmark",
        command(request).arg("--no-run"),
        Counting::OneCheck,
        interruption,
    )?;
    let mut results = vec![built];
    let Provisioner::Explicit(endpoints) = Provisioner::choose(Wish::Any)? else {
        let user = User::TestRun(ProcessIdentity::current()?);
        services::up(user)?;
        let measured =
            services::endpoints().and_then(|endpoints| measure(request, &endpoints, interruption));
        services::release(user)?;
        results.push(measured?);
        return Ok(results);
    };
    results.push(measure(request, &endpoints, interruption)?);
    Ok(results)
}

fn measure(
    request: &BenchRun,
    endpoints: &Endpoints,
    interruption: &Interruption,
) -> Result<LaneResult> {
    let peer = request
        .peers
        .then(|| ConnectWorker::start(&endpoints.kafka_bootstrap))
        .transpose()?;
    let mut command = command(request);
    command
        .env(services::POSTGRES_URL, &endpoints.postgres_url)
        .env(services::KAFKA_BOOTSTRAP, &endpoints.kafka_bootstrap);
    command.arg("--");
    if request.quick {
        command.arg("--quick");
    }
    if let Some(events) = request.events {
        command.args(["--events", &events.to_string()]);
    }
    if let Some(peer) = &peer {
        command.args(["--connect", &peer.url()]);
        command.args(["--connect-pid", &peer.pid().to_string()]);
    }
    runner::run(
        match request.bench {
            Bench::Outbox => "benchmark of the outbox",
        },
        &mut command,
        Counting::OneCheck,
        interruption,
    )
}

fn command(request: &BenchRun) -> Command {
    let mut command = Command::new(workspace::cargo());
    command.current_dir(workspace::root());
    match request.bench {
        Bench::Outbox => command.args(["bench", "-p", "app-bootstrap", "--bench", "outbox"]),
    };
    if request.quick {
        // Everything is built for the tests already.
        command.args(["--profile", "dev"]);
    }
    command
}
