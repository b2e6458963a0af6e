//! One native PostgreSQL server on loopback.
//!
//! Invariant: it listens on 127.0.0.1 only, accepts nobody without a password that was drawn
//! for this run, and that password is never on a command line, in a log or on the terminal.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::account::Account;
use super::lock::PostgresLock;
use super::probe;
use super::state::{Service, ServicesHome};
use crate::process::{log_tail, run_quietly, spawn_detached};
use crate::wait;

/// The database that the product's profiles use.
pub(crate) const DATABASE: &str = "countersign";

/// A started server and what must be kept about it.
pub(crate) struct Started {
    /// The server.
    pub(crate) service: Service,
    /// A folder outside the services folder, when that one is closed to the server's user.
    pub(crate) borrowed_folder: Option<PathBuf>,
}

/// Creates a fresh cluster with the database [`DATABASE`] and starts it; the superuser's URL
/// is left in [`ServicesHome::postgres_url_file`].
pub(crate) fn start(home: &ServicesHome, unpacked: &Path, lock: &PostgresLock) -> Result<Started> {
    let account = Account::unprivileged()?;
    let place = Place::choose(home, unpacked, &account)?;
    let result = start_in(home, &place, lock, &account);
    if result.is_err()
        && let Some(folder) = &place.borrowed
    {
        std::fs::remove_dir_all(folder).context("remove the borrowed folder")?;
    }
    Ok(Started {
        service: result?,
        borrowed_folder: place.borrowed,
    })
}

/// Where the binaries and the data lie.
struct Place {
    native: PathBuf,
    run: PathBuf,
    borrowed: Option<PathBuf>,
}

impl Place {
    fn choose(home: &ServicesHome, unpacked: &Path, account: &Account) -> Result<Self> {
        std::fs::create_dir_all(home.run()).context("create the run folder")?;
        let initdb = unpacked.join("native/bin/initdb");
        if account.can_reach(&initdb) && account.can_reach(&home.run()) {
            return Ok(Self {
                native: unpacked.join("native"),
                run: home.run().join("postgres"),
                borrowed: None,
            });
        }
        let name = format!(
            "countersign-services-{:016x}",
            u64::from_le_bytes(probe::random_bytes()?)
        );
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        println!(
            "postgres: {account} cannot reach {}, so its binaries and data are in {}",
            home.base().display(),
            folder.display()
        );
        run_quietly(
            std::process::Command::new("cp")
                .arg("-a")
                .arg(unpacked.join("native"))
                .arg(&folder),
            "copy PostgreSQL",
        )?;
        Ok(Self {
            native: folder.join("native"),
            run: folder.join("data"),
            borrowed: Some(folder),
        })
    }
}

fn start_in(
    home: &ServicesHome,
    place: &Place,
    lock: &PostgresLock,
    account: &Account,
) -> Result<Service> {
    if place.run.exists() {
        std::fs::remove_dir_all(&place.run).context("remove old PostgreSQL data")?;
    }
    std::fs::create_dir_all(&place.run).context("create the PostgreSQL folder")?;
    account.own(&place.run)?;
    let password = hex(&probe::random_bytes::<24>()?);
    let data = place.run.join("data");
    initialize(place, account, &data, &password)?;

    let port = probe::free_port(&[])?;
    let log = home.logs().join("postgres.log");
    let mut server = account.command(place.native.join("bin/postgres"));
    server
        .env("LD_LIBRARY_PATH", place.native.join("lib"))
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string()]);
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "wal_level=logical",
        "max_connections=200",
    ] {
        server.args(["-c", setting]);
    }
    let process = spawn_detached(&mut server, &log)?;
    let ready = wait::until(
        "PostgreSQL accepting connections",
        Duration::from_secs(60),
        || {
            if !process.is_alive() {
                bail!("PostgreSQL ended");
            }
            Ok(is_ready(&data) && probe::postgres_answers(&format!("127.0.0.1:{port}")))
        },
    );
    if let Err(error) = ready {
        process.stop(rustix::process::Signal::INT, Duration::from_secs(10))?;
        return Err(error.context(log_tail(&log)));
    }
    let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/{DATABASE}");
    write_secret(&home.postgres_url_file(), &url)?;
    Ok(Service {
        version: lock.version.clone(),
        process,
        port,
        data,
        log,
    })
}

fn initialize(place: &Place, account: &Account, data: &Path, password: &str) -> Result<()> {
    let password_file = place.run.join("password");
    write_secret(&password_file, password)?;
    account.own(&password_file)?;
    let mut initdb = account.command(place.native.join("bin/initdb"));
    initdb
        .env("LD_LIBRARY_PATH", place.native.join("lib"))
        .arg("-D")
        .arg(data)
        .arg("--pwfile")
        .arg(&password_file)
        .args(["-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8"])
        .args(["--locale=C", "--no-sync", "--no-instructions"]);
    run_quietly(&mut initdb, "initdb")?;
    std::fs::remove_file(&password_file).context("remove the password file")?;

    // The package has no psql. In single-user mode the server itself takes the statement.
    let mut single = account
        .command(place.native.join("bin/postgres"))
        .env("LD_LIBRARY_PATH", place.native.join("lib"))
        .arg("--single")
        .arg("-D")
        .arg(data)
        .arg("postgres")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("start PostgreSQL in single-user mode")?;
    single
        .stdin
        .take()
        .ok_or_else(|| anyhow!("no standard input"))?
        .write_all(format!("CREATE DATABASE {DATABASE}\n").as_bytes())
        .context("create the database")?;
    let output = single.wait_with_output().context("create the database")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Single-user mode exits with 0 after a failed statement.
    if !output.status.success() || said.contains("ERROR:") {
        bail!("create the database: {said}");
    }
    Ok(())
}

/// The eighth line of `postmaster.pid` is `ready` once connections are accepted
/// (`PM_STATUS_READY` in PostgreSQL's `pidfile.h`).
fn is_ready(data: &Path) -> bool {
    std::fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|file| {
        file.lines()
            .nth(7)
            .is_some_and(|line| line.trim() == "ready")
    })
}

fn write_secret(path: &Path, secret: &str) -> Result<()> {
    if path.exists() {
        std::fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    }
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(secret.as_bytes()))
        .with_context(|| format!("write {}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
