//! `cargo xtask test`: services, then every lane, then the services it started are stopped.
//!
//! Invariant: services that this run started are stopped however it ends, and those that ran
//! before are left alone.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::prebuilt;
use super::runner::{self, Counting, LaneResult};
use super::tally::Tally;
use super::{features, summary};
use crate::interruption::Interruption;
use crate::metadata::Metadata;
use crate::process::{ProcessIdentity, find_program, run_quietly};
use crate::services::engine::{ApiVersion, Downgrade, EngineAddress};
use crate::services::provisioner::{Provisioner, Wish};
use crate::services::{self, Endpoints, User};
use crate::{wait, workspace};

/// What one test run is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct TestRun {
    /// Where the services shall come from.
    pub(crate) wish: Wish,
    /// Only the tests of these packages; all lanes when empty.
    pub(crate) packages: Vec<String>,
    /// Whether `DOCKER_HOST` already is a socket that lowers API versions.
    pub(crate) through_socket: bool,
}

/// Runs the lanes and prints the summary; `false` when one failed.
pub(crate) fn run(request: &TestRun) -> Result<bool> {
    let interruption = Interruption::watch()?;
    match Provisioner::choose(request.wish)? {
        Provisioner::Engine(address, version) if !request.through_socket => {
            run_with_containers_feature(request, address, version, &interruption)
        }
        provisioner => {
            let results = provide_and_run(request, provisioner, &interruption)?;
            let (table, passed) = summary::table(&results);
            println!("{table}");
            Ok(passed)
        }
    }
}

/// The lanes on native services or explicit endpoints, for a caller with more lanes.
pub(crate) fn lanes(interruption: &Interruption) -> Result<Vec<LaneResult>> {
    let request = TestRun {
        wish: Wish::Any,
        packages: Vec::new(),
        through_socket: false,
    };
    match Provisioner::choose(Wish::Any)? {
        // The engine has a lane of its own there, so that both ways are run.
        Provisioner::Engine(..) => {
            println!("services: native processes here; the engine's turn is its own lane");
            provide_and_run(&request, Provisioner::Native, interruption)
        }
        provisioner => provide_and_run(&request, provisioner, interruption),
    }
}

fn provide_and_run(
    request: &TestRun,
    provisioner: Provisioner,
    interruption: &Interruption,
) -> Result<Vec<LaneResult>> {
    let classpath = match std::env::var(services::KAFKA_CLASSPATH) {
        Ok(classpath) if !classpath.is_empty() => classpath,
        _ => services::kafka_classpath()?,
    };
    match provisioner {
        Provisioner::Explicit(endpoints) => {
            require_answers(&endpoints)?;
            all_lanes(
                request,
                &Surroundings::new(endpoints, classpath)?,
                interruption,
            )
        }
        Provisioner::Native => {
            let user = User::TestRun(ProcessIdentity::current()?);
            services::up(user)?;
            let results = services::endpoints()
                .and_then(|endpoints| Surroundings::new(endpoints, classpath))
                .and_then(|surroundings| all_lanes(request, &surroundings, interruption));
            services::release(user)?;
            results
        }
        #[cfg(feature = "containers")]
        Provisioner::Engine(address, _) => {
            let containers = services::containers::Containers::start(&address, &classpath)?;
            let surroundings = Surroundings::new(containers.endpoints().clone(), classpath)?;
            all_lanes(request, &surroundings, interruption)
        }
        #[cfg(not(feature = "containers"))]
        Provisioner::Engine(..) => Err(anyhow!(
            "this xtask was built without its feature containers"
        )),
    }
}

/// Starts this program again with the testing library linked in and the engine behind a socket
/// that speaks its version.
fn run_with_containers_feature(
    request: &TestRun,
    engine: EngineAddress,
    version: ApiVersion,
    interruption: &Interruption,
) -> Result<bool> {
    let socket = Downgrade::start(engine, version)?;
    let mut command = Command::new(workspace::cargo());
    command
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--features",
            "containers",
            "--",
        ])
        .args(["test", "--containers", "--through-socket"])
        .current_dir(workspace::root())
        .env("DOCKER_HOST", socket.address().url());
    for package in &request.packages {
        command.args(["--package", package]);
    }
    let mut child = command.spawn().context("start cargo run")?;
    let mut told = false;
    let mut status = None;
    wait::until(
        "the end of the containers run",
        Duration::from_secs(3 * 3600),
        || {
            // The child removes its containers when it is told to stop, so it is waited for.
            if interruption.happened() && !told {
                told = true;
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    kill_process(pid, Signal::TERM).context("stop the containers run")?;
                }
            }
            status = child.try_wait().context("wait for the containers run")?;
            Ok(status.is_some())
        },
    )?;
    Ok(status.is_some_and(|status| status.success()))
}

fn require_answers(endpoints: &Endpoints) -> Result<()> {
    let after_user = endpoints
        .postgres_url
        .rsplit_once('@')
        .map_or(endpoints.postgres_url.as_str(), |(_, rest)| rest);
    let mut postgres = after_user
        .split(['/', '?'])
        .next()
        .unwrap_or_default()
        .to_owned();
    if !postgres.contains(':') {
        postgres.push_str(":5432");
    }
    if !services::probe::postgres_answers(&postgres) {
        return Err(anyhow!(
            "no PostgreSQL answers at {postgres} ({})",
            services::POSTGRES_URL
        ));
    }
    let answered = endpoints
        .kafka_bootstrap
        .split(',')
        .any(|address| services::probe::kafka_answers(address.trim()));
    if !answered {
        return Err(anyhow!(
            "no Kafka broker answers at {} ({})",
            endpoints.kafka_bootstrap,
            services::KAFKA_BOOTSTRAP
        ));
    }
    Ok(())
}

/// What every command of a lane gets.
struct Surroundings {
    endpoints: Endpoints,
    classpath: String,
    features: Vec<String>,
}

impl Surroundings {
    fn new(endpoints: Endpoints, classpath: String) -> Result<Self> {
        Ok(Self {
            endpoints,
            classpath,
            features: features::arguments(&features::all(&Metadata::load()?)),
        })
    }

    fn command(&self, program: impl Into<PathBuf>) -> Command {
        let mut command = Command::new(program.into());
        command
            .current_dir(workspace::root())
            .env(services::POSTGRES_URL, &self.endpoints.postgres_url)
            .env(services::KAFKA_BOOTSTRAP, &self.endpoints.kafka_bootstrap)
            .env(services::KAFKA_CLASSPATH, &self.classpath);
        command
    }

    fn cargo_test(&self) -> Command {
        let mut command = self.command(workspace::cargo());
        command.args(["test", "--workspace"]).args(&self.features);
        command
    }
}

fn all_lanes(
    request: &TestRun,
    surroundings: &Surroundings,
    interruption: &Interruption,
) -> Result<Vec<LaneResult>> {
    if !request.packages.is_empty() {
        return package_lanes(&request.packages, surroundings, interruption);
    }
    let mut results = vec![
        // No target is named: only so are examples built as the programs that tests start.
        runner::run(
            "tests of the workspace, all features, documentation too",
            surroundings.cargo_test().arg("--no-fail-fast"),
            Counting::Tests,
            interruption,
        )?,
        runner::run(
            "journal without the broker",
            surroundings.command(workspace::cargo()).args([
                "test",
                "-p",
                "outbound-journal",
                "--no-default-features",
            ]),
            Counting::Tests,
            interruption,
        )?,
        deployable_without_sample()?,
    ];
    results.extend(golden_scripts(surroundings, interruption)?);
    Ok(results)
}

fn package_lanes(
    packages: &[String],
    surroundings: &Surroundings,
    interruption: &Interruption,
) -> Result<Vec<LaneResult>> {
    let mut build = surroundings.cargo_test();
    build.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut results = Vec::new();
    for binary in prebuilt::build(&mut build, packages)? {
        let name = binary
            .executable
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        // Cargo appends a hash to the name, which says nothing to a reader.
        let name = name.rsplit_once('-').map_or(&*name, |(stem, _)| stem);
        results.push(runner::run(
            &format!("{} ({name})", binary.package),
            surroundings
                .command(&binary.executable)
                .current_dir(&binary.folder)
                .env("CARGO_MANIFEST_DIR", &binary.folder),
            Counting::OptionalTests,
            interruption,
        )?);
    }
    // A binary may have nothing to run, a package may not.
    if results.iter().all(|result| result.tally.passed == 0) {
        bail!("no test ran for {}", packages.join(", "));
    }
    Ok(results)
}

/// The deployable build must not contain the sample feature.
fn deployable_without_sample() -> Result<LaneResult> {
    let name = "deployable build without the sample";
    runner::announce(name);
    let started = Instant::now();
    let tree = run_quietly(
        Command::new(workspace::cargo())
            .current_dir(workspace::root())
            .args(["tree", "-p", "app-bootstrap", "--no-default-features"])
            .args(["-e", "normal", "--target", "all", "--prefix", "none"]),
        "cargo tree",
    )?;
    let passed = !tree_names(&tree, "portfolio") && tree_names(&tree, "app-bootstrap");
    println!(
        "{} packages, portfolio {}",
        tree.lines().count(),
        if passed { "absent" } else { "PRESENT" }
    );
    Ok(LaneResult {
        name: name.to_owned(),
        passed,
        tally: Tally::of_check(passed),
        took: started.elapsed(),
    })
}

fn tree_names(tree: &str, package: &str) -> bool {
    tree.lines()
        .any(|line| line.split(' ').next() == Some(package))
}

/// Where golden files and their independent scripts are kept.
const GOLDEN_FOLDERS: [&str; 3] = [
    "shared-contract/golden",
    "adapters/outbound/journal/golden",
    "adapters/outbound/messaging-kafka/tests/it",
];

/// The independent implementations kept beside the golden vectors; each checks them itself.
fn golden_scripts(
    surroundings: &Surroundings,
    interruption: &Interruption,
) -> Result<Vec<LaneResult>> {
    let mut scripts = Vec::new();
    for folder in GOLDEN_FOLDERS {
        let folder = workspace::root().join(folder);
        for entry in std::fs::read_dir(&folder).context("list the golden vectors")? {
            let path = entry.context("list the golden vectors")?.path();
            if path.extension().is_some_and(|extension| extension == "py") {
                scripts.push(path);
            }
        }
    }
    scripts.sort();
    scripts
        .iter()
        .map(|script| {
            let python = find_program("python3")
                .ok_or_else(|| anyhow!("python3 is not on PATH; the golden scripts need it"))?;
            let name = script.file_name().unwrap_or_default().to_string_lossy();
            runner::run(
                &format!("golden vectors by {name}"),
                surroundings.command(python).arg(script).arg("--check"),
                Counting::OneCheck,
                interruption,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_whole_name() {
        let tree = "app-bootstrap v0.1.0 (/w/app-bootstrap)\nportfolio-theory v1.0.0\n";
        assert!(tree_names(tree, "app-bootstrap"));
        assert!(!tree_names(tree, "portfolio"));
    }
}
