//! `cargo xtask services up|down|status|env`: the native services and their files.
//!
//! Invariant: `up` leaves both services answering or neither running.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::Signal;
use serde_json::json;

use super::lock::ServicesLock;
use super::state::{ServicesHome, State, User};
use super::{Endpoints, KAFKA_BOOTSTRAP, KAFKA_CLASSPATH, POSTGRES_URL};
use super::{download, kafka, postgres, probe};
use crate::process::Stopped;

/// Whether `up` had to start anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    /// It started them.
    Started,
    /// They ran already.
    AlreadyRunning,
}

/// Starts the services for `user` unless they run.
pub(crate) fn up(user: User) -> Result<Up> {
    let home = ServicesHome::from_environment()?;
    let _lock = home.lock()?;
    if let Some(mut state) = home.load()? {
        let dead = state.dead();
        if dead.is_empty() {
            describe(&home, &state, "already running");
            state.join(user);
            home.store(&state)?;
            return Ok(Up::AlreadyRunning);
        }
        println!(
            "{} gone since the last start; begin afresh",
            dead.join(" and ")
        );
        stop(&home, &state)?;
    }
    start(&home, user)?;
    Ok(Up::Started)
}

/// Stops the services when `user` was the last who needs them.
pub(crate) fn release(user: User) -> Result<()> {
    let home = ServicesHome::from_environment()?;
    let _lock = home.lock()?;
    let Some(mut state) = home.load()? else {
        return Ok(());
    };
    if state.leave(user) {
        return stop(&home, &state);
    }
    println!("services stay up for {} other users", state.users.len());
    home.store(&state)
}

fn start(home: &ServicesHome, user: User) -> Result<()> {
    let lock = ServicesLock::load()?;
    let cache = home.cache()?;
    let unpacked = download::postgres(&cache, &lock.postgres)?;
    let libs = download::kafka(&cache, &lock.kafka)?;
    for folder in [home.run(), home.logs()] {
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    }

    let database = postgres::start(home, &unpacked, &lock.postgres).context("start PostgreSQL")?;
    let taken = [database.service.port];
    let broker = match kafka::start(home, &libs, &lock.kafka, &taken) {
        Ok(broker) => broker,
        Err(error) => {
            let process = database.service.process;
            process.stop(Signal::INT, Duration::from_secs(20))?;
            if let Some(folder) = database.borrowed_folder {
                std::fs::remove_dir_all(folder).context("remove the borrowed folder")?;
            }
            home.forget()?;
            return Err(error.context("start Kafka"));
        }
    };
    let state = State {
        users: vec![user],
        postgres: database.service,
        kafka: broker,
        kafka_libs: libs,
        borrowed_folders: database.borrowed_folder.into_iter().collect(),
    };
    home.store(&state)?;
    std::fs::write(home.endpoints(), endpoints_file(home, &state))
        .context("write the endpoints")?;
    describe(home, &state, "started");
    Ok(())
}

/// Stops what `up` started, whoever needs it.
pub(crate) fn down() -> Result<()> {
    let home = ServicesHome::from_environment()?;
    let _lock = home.lock()?;
    match home.load()? {
        Some(state) => stop(&home, &state),
        None => {
            println!("no services to stop");
            Ok(())
        }
    }
}

fn stop(home: &ServicesHome, state: &State) -> Result<()> {
    // Kafka first: it takes longer, and nothing in PostgreSQL waits for it.
    let broker = state
        .kafka
        .process
        .stop(Signal::TERM, Duration::from_secs(30))?;
    // SIGINT is PostgreSQL's fast shutdown: it ends the sessions instead of waiting for them.
    let database = state
        .postgres
        .process
        .stop(Signal::INT, Duration::from_secs(30))?;
    for (name, stopped) in [("kafka", broker), ("postgres", database)] {
        let how = match stopped {
            Stopped::AlreadyGone => "was gone already",
            Stopped::Ended => "stopped",
            Stopped::Killed => "killed: it did not stop in 30 s",
        };
        println!("{name} {how}");
    }
    for folder in state.borrowed_folders.iter().chain([&home.run()]) {
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("remove {}", folder.display()))?;
        }
    }
    home.forget()
}

/// Prints what runs; `false` unless everything does and answers.
pub(crate) fn status(as_json: bool) -> Result<bool> {
    let home = ServicesHome::from_environment()?;
    let Some(state) = home.load()? else {
        if as_json {
            println!("{}", json!({"running": false, "services": []}));
        } else {
            println!("down: nothing was started in {}", home.base().display());
        }
        return Ok(false);
    };
    let mut services = Vec::new();
    for (name, service) in state.services() {
        let address = format!("127.0.0.1:{}", service.port);
        let condition = if !service.process.is_alive() {
            "dead"
        } else if (name == "postgres" && probe::postgres_answers(&address))
            || (name == "kafka" && probe::kafka_answers(&address))
        {
            "running"
        } else {
            "silent"
        };
        services.push(json!({
            "name": name,
            "version": service.version,
            "condition": condition,
            "pid": service.process.pid,
            "address": address,
            "data": service.data,
            "log": service.log,
        }));
        if !as_json {
            println!(
                "{name:8} {condition:8} {} pid {} at {address}, log {}",
                service.version,
                service.process.pid,
                service.log.display()
            );
        }
    }
    let running = services
        .iter()
        .all(|service| service["condition"] == "running");
    if as_json {
        println!("{}", json!({"running": running, "services": services}));
    }
    Ok(running)
}

/// Prints the exports that the tests need; the password stays in its file.
pub(crate) fn environment() -> Result<()> {
    let home = ServicesHome::from_environment()?;
    let state = home
        .load()?
        .ok_or_else(|| anyhow!("no services run here"))?;
    println!(
        "export {POSTGRES_URL}=\"$(cat '{}')\"",
        home.postgres_url_file().display()
    );
    println!("export {KAFKA_BOOTSTRAP}='127.0.0.1:{}'", state.kafka.port);
    println!(
        "export {KAFKA_CLASSPATH}='{}/*'",
        state.kafka_libs.display()
    );
    Ok(())
}

/// Where the running native services are.
pub(crate) fn endpoints() -> Result<Endpoints> {
    let home = ServicesHome::from_environment()?;
    let state = home
        .load()?
        .ok_or_else(|| anyhow!("no services run here"))?;
    let dead = state.dead();
    if !dead.is_empty() {
        bail!("{} is dead", dead.join(" and "));
    }
    let path = home.postgres_url_file();
    Ok(Endpoints {
        postgres_url: std::fs::read_to_string(&path)
            .with_context(|| format!("read {}", path.display()))?,
        kafka_bootstrap: format!("127.0.0.1:{}", state.kafka.port),
    })
}

/// The class path of Kafka's own tools, downloaded when the cache has none.
pub(crate) fn kafka_classpath() -> Result<String> {
    let home = ServicesHome::from_environment()?;
    let _lock = home.lock()?;
    kafka::java()?;
    let libs = download::kafka(&home.cache()?, &ServicesLock::load()?.kafka)?;
    Ok(format!("{}/*", libs.display()))
}

fn endpoints_file(home: &ServicesHome, state: &State) -> String {
    let url = format!("secret://file{}", home.postgres_url_file().display());
    format!(
        "# Written by cargo xtask services up; gone with the services.\n\
         [kafka]\n\
         bootstrap-servers = [\"127.0.0.1:{}\"]\n\n\
         [database]\n\
         url = {}\n",
        state.kafka.port,
        toml::Value::String(url)
    )
}

fn describe(home: &ServicesHome, state: &State, what: &str) {
    for (name, service) in state.services() {
        println!(
            "{name} {} {what}: 127.0.0.1:{} (pid {})",
            service.version, service.port, service.process.pid
        );
    }
    println!(
        "topic {} with {} partitions",
        kafka::TOPIC,
        kafka::PARTITIONS
    );
    println!("endpoints in {}", home.endpoints().display());
}
