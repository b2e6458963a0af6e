//! `cargo xtask faults`: processes killed and stopped, and a broker that is away, for as long as asked.
//!
//! Invariant: the tests are those that `cargo xtask test` runs short; only their time and seed are
//! set here. Services that this run started are stopped however it ends.

use std::process::Command;

use anyhow::Result;

use super::runner::{self, Counting, LaneResult};
use super::summary;
use crate::interruption::Interruption;
use crate::process::ProcessIdentity;
use crate::services::provisioner::{Provisioner, Wish};
use crate::services::{self, Endpoints, User};
use crate::workspace;

const FAULT_SECONDS: &str = "COUNTERSIGN_FAULT_SECONDS";
const FAULT_SEED: &str = "COUNTERSIGN_FAULT_SEED";

/// Runs the faults; `false` when something did not hold.
pub(crate) fn run(minutes: u32, seed: u64) -> Result<bool> {
    let interruption = Interruption::watch()?;
    // Built before any service is started.
    let mut results = vec![runner::run(
        "build of the fault runs",
        command().arg("--no-run"),
        Counting::OneCheck,
        &interruption,
    )?];
    let classpath = match std::env::var(services::KAFKA_CLASSPATH) {
        Ok(classpath) if !classpath.is_empty() => classpath,
        _ => services::kafka_classpath()?,
    };
    let run = Run {
        minutes,
        seed,
        classpath,
    };
    if let Provisioner::Explicit(endpoints) = Provisioner::choose(Wish::Any)? {
        results.push(run.on(&endpoints, &interruption)?);
    } else {
        let user = User::TestRun(ProcessIdentity::current()?);
        services::up(user)?;
        let ran = services::endpoints().and_then(|endpoints| run.on(&endpoints, &interruption));
        services::release(user)?;
        results.push(ran?);
    }
    let (table, passed) = summary::table(&results);
    println!("{table}");
    Ok(passed)
}

struct Run {
    minutes: u32,
    seed: u64,
    classpath: String,
}

impl Run {
    fn on(&self, endpoints: &Endpoints, interruption: &Interruption) -> Result<LaneResult> {
        let mut command = command();
        command
            .args(["--", "--nocapture"])
            .env(services::POSTGRES_URL, &endpoints.postgres_url)
            .env(services::KAFKA_BOOTSTRAP, &endpoints.kafka_bootstrap)
            .env(services::KAFKA_CLASSPATH, &self.classpath)
            .env(FAULT_SECONDS, (u64::from(self.minutes) * 60).to_string())
            .env(FAULT_SEED, self.seed.to_string());
        runner::run(
            &format!("faults for {} min, seed {}", self.minutes, self.seed),
            &mut command,
            Counting::Tests,
            interruption,
        )
    }
}

fn command() -> Command {
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(workspace::root())
        .args(["test", "-p", "app-bootstrap"])
        .args(["--features", "failpoints", "--test", "faults"]);
    command
}
