//! What is known about running services between two commands.
//!
//! Invariant: `state.json` is written whole (a rename) and only under the folder's lock, so a
//! second command sees either the state before or the state after.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::process::ProcessIdentity;
use crate::workspace;

/// The folders and files of one set of services.
#[derive(Clone, Debug)]
pub(crate) struct ServicesHome {
    base: PathBuf,
}

impl ServicesHome {
    /// `COUNTERSIGN_SERVICES_DIR`, or `target/services` of this workspace.
    pub(crate) fn from_environment() -> Result<Self> {
        let base = std::env::var_os("COUNTERSIGN_SERVICES_DIR").map_or_else(
            || workspace::root().join("target").join("services"),
            PathBuf::from,
        );
        let base = std::path::absolute(base).context("resolve the services folder")?;
        std::fs::create_dir_all(&base).with_context(|| format!("create {}", base.display()))?;
        Ok(Self { base })
    }

    /// Everything lies below this folder, except what must lie where another user can reach it.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// Downloads, kept from run to run. `COUNTERSIGN_SERVICES_CACHE` moves them.
    pub(crate) fn cache(&self) -> Result<PathBuf> {
        let cache = std::env::var_os("COUNTERSIGN_SERVICES_CACHE")
            .map_or_else(|| self.base.join("cache"), PathBuf::from);
        let cache = std::path::absolute(cache).context("resolve the cache folder")?;
        std::fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
        Ok(cache)
    }

    /// Data of the running services, removed when they stop.
    pub(crate) fn run(&self) -> PathBuf {
        self.base.join("run")
    }

    /// Logs, kept after the services have stopped.
    pub(crate) fn logs(&self) -> PathBuf {
        self.base.join("logs")
    }

    /// The connection URL of PostgreSQL, readable to its owner only.
    pub(crate) fn postgres_url_file(&self) -> PathBuf {
        self.base.join("postgres.url")
    }

    /// The endpoints in the shape that a profile includes.
    pub(crate) fn endpoints(&self) -> PathBuf {
        self.base.join("endpoints.toml")
    }

    fn state(&self) -> PathBuf {
        self.base.join("state.json")
    }

    /// Waits until no other command works on these services.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.base.join("lock");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                println!("wait for another xtask that starts or stops services");
                file.lock().context("lock the services folder")?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).context("lock the services folder");
            }
        }
        Ok(file)
    }

    /// The recorded state; `None` when nothing was started.
    pub(crate) fn load(&self) -> Result<Option<State>> {
        let path = self.state();
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("parse {}", path.display()))
                .map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }

    /// Replaces the recorded state.
    pub(crate) fn store(&self, state: &State) -> Result<()> {
        let path = self.state();
        let partial = path.with_extension("json.partial");
        let bytes = serde_json::to_vec_pretty(state).context("format the state")?;
        std::fs::write(&partial, bytes)
            .and_then(|()| std::fs::rename(&partial, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Forgets the state and the endpoints of services that are gone.
    pub(crate) fn forget(&self) -> Result<()> {
        for path in [self.state(), self.endpoints(), self.postgres_url_file()] {
            remove_if_there(&path)?;
        }
        Ok(())
    }
}

/// The services that one command started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    /// Who needs them; the last one to go stops them.
    pub(crate) users: Vec<User>,
    /// The PostgreSQL server.
    pub(crate) postgres: Service,
    /// The Kafka broker.
    pub(crate) kafka: Service,
    /// The jars of Kafka, for tools.
    pub(crate) kafka_libs: PathBuf,
    /// Folders outside the services folder that go away with the services.
    pub(crate) borrowed_folders: Vec<PathBuf>,
}

/// Who needs the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "process")]
pub(crate) enum User {
    /// A person, until `services down`.
    Person,
    /// The test run with this identity, until it ends.
    TestRun(ProcessIdentity),
}

/// One running server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Service {
    /// What the server calls itself.
    pub(crate) version: String,
    /// Its process.
    pub(crate) process: ProcessIdentity,
    /// The loopback port it listens on.
    pub(crate) port: u16,
    /// Its data.
    pub(crate) data: PathBuf,
    /// What it printed.
    pub(crate) log: PathBuf,
}

impl State {
    /// Both servers with their names, in the order they are started in.
    pub(crate) fn services(&self) -> [(&'static str, &Service); 2] {
        [("postgres", &self.postgres), ("kafka", &self.kafka)]
    }

    /// Notes that `user` needs them, and forgets test runs that were killed.
    pub(crate) fn join(&mut self, user: User) {
        self.leave(user);
        self.users.push(user);
    }

    /// Notes that `user` is done; `true` when nobody needs them any more.
    pub(crate) fn leave(&mut self, user: User) -> bool {
        self.users.retain(|other| {
            *other != user
                && match other {
                    User::Person => true,
                    User::TestRun(run) => run.is_alive(),
                }
        });
        self.users.is_empty()
    }

    /// The names of the servers whose process is gone.
    pub(crate) fn dead(&self) -> Vec<&'static str> {
        self.services()
            .into_iter()
            .filter(|(_, service)| !service.process.is_alive())
            .map(|(name, _)| name)
            .collect()
    }
}

fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(anyhow!(error).context(format!("remove {}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(users: Vec<User>) -> State {
        let service = || Service {
            version: String::new(),
            process: ProcessIdentity {
                pid: 0,
                start_ticks: 0,
            },
            port: 0,
            data: PathBuf::new(),
            log: PathBuf::new(),
        };
        State {
            users,
            postgres: service(),
            kafka: service(),
            kafka_libs: PathBuf::new(),
            borrowed_folders: Vec::new(),
        }
    }

    #[test]
    fn services_stay_until_the_last_user_has_left() {
        let run = User::TestRun(ProcessIdentity::current().unwrap());
        let mut state = state(vec![User::Person]);
        state.join(run);
        state.join(run);
        assert_eq!(state.users, [User::Person, run]);
        assert!(!state.leave(run));
        assert!(state.leave(User::Person));
    }

    #[test]
    fn a_killed_test_run_keeps_nothing_alive() {
        let mut gone = ProcessIdentity::current().unwrap();
        gone.start_ticks += 1;
        let run = User::TestRun(ProcessIdentity::current().unwrap());
        let mut state = state(vec![User::TestRun(gone)]);
        state.join(run);
        assert_eq!(state.users, [run]);
    }
}
