//! Services, test lanes and checks: `cargo xtask …`.
//!
//! Invariant: every command either does what it says and exits with 0, or says what is wrong
//! and exits with another code.
#![forbid(unsafe_code)]

mod architecture;
mod interruption;
mod lanes;
mod metadata;
mod process;
mod services;
mod wait;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use lanes::bench::BenchRun;
use lanes::test::TestRun;
use services::provisioner::Wish;

/// Development tasks of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Native PostgreSQL and Kafka on loopback, for tests and the local-kafka profile.
    Services {
        #[command(subcommand)]
        action: ServicesAction,
    },
    /// Run every test on real services, starting and stopping them as needed.
    Test {
        /// Take the services from a Docker engine, or fail when none answers.
        #[arg(long, conflicts_with = "native")]
        containers: bool,
        /// Start native services even if a Docker engine answers.
        #[arg(long)]
        native: bool,
        /// Run only the tests of this package; may be repeated.
        #[arg(short, long)]
        package: Vec<String>,
        /// Set by this program when it starts itself again.
        #[arg(long, hide = true, requires = "containers")]
        through_socket: bool,
    },
    /// Measure, and write the figures to target/bench.
    Bench {
        /// What to measure.
        name: lanes::bench::Bench,
        /// Measure little, with the build that tests use: the form that CI runs. Its figures say that
        /// the benchmark works and nothing else.
        #[arg(long)]
        quick: bool,
        /// Measure Debezium with its outbox router beside it; downloads it once.
        #[arg(long)]
        peers: bool,
        /// Events of the large drains.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
        events: Option<u32>,
    },
    /// Kill and stop processes and take the broker away, on real services, and account for every event.
    Faults {
        /// For how long processes are killed and stopped; each of two outages lasts a quarter of it.
        /// Starting, draining and checking come on top.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=120))]
        minutes: u32,
        /// Decides which fault happens when.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Compare the workspace with config/architecture/modules.json and scan the sources.
    Architecture,
    /// Everything that a change must pass: format, clippy, cargo-deny, tests, containers.
    Ci {
        /// Run only this part; may be repeated.
        #[arg(long)]
        only: Vec<lanes::ci::Part>,
    },
}

#[derive(Subcommand)]
enum ServicesAction {
    /// Start both services with fresh data, unless they run.
    Up,
    /// Stop them and remove their data.
    Down,
    /// Say what runs; exit code 1 unless both do.
    Status {
        /// One JSON object instead of lines.
        #[arg(long)]
        json: bool,
    },
    /// Print the shell exports that tests need.
    Env,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// An interrupted start is finished first and then undone, so that nothing is left behind that
/// no state knows of.
fn services_up() -> Result<bool> {
    let interruption = interruption::Interruption::watch()?;
    let up = services::up(services::User::Person)?;
    if interruption.happened() && up == services::Up::Started {
        services::down()?;
        return Ok(false);
    }
    Ok(true)
}

fn run(task: Task) -> Result<bool> {
    match task {
        Task::Services { action } => match action {
            ServicesAction::Up => services_up(),
            ServicesAction::Down => services::down().map(|()| true),
            ServicesAction::Status { json } => services::status(json),
            ServicesAction::Env => services::environment().map(|()| true),
        },
        Task::Test {
            containers,
            native,
            package,
            through_socket,
        } => lanes::test::run(&TestRun {
            wish: match (containers, native) {
                (true, _) => Wish::Containers,
                (_, true) => Wish::Native,
                _ => Wish::Any,
            },
            packages: package,
            through_socket,
        }),
        Task::Bench {
            name,
            quick,
            peers,
            events,
        } => lanes::bench::run(&BenchRun {
            bench: name,
            quick,
            peers,
            events,
        }),
        Task::Faults { minutes, seed } => lanes::faults::run(minutes, seed),
        Task::Architecture => architecture::report(),
        Task::Ci { only } => lanes::ci::run(&only),
    }
}
