//! Which of the three ways gives the tests their services.
//!
//! Invariant: explicit endpoints come before a Docker engine, and that before native
//! processes; half an explicit choice is an error, not a guess.

use anyhow::{Result, bail};

use super::engine::{ApiVersion, EngineAddress};
use super::{Endpoints, KAFKA_BOOTSTRAP, POSTGRES_URL};

/// Where the services come from.
pub(crate) enum Provisioner {
    /// They run already; the environment says where.
    Explicit(Endpoints),
    /// Containers of the engine at this address.
    Engine(EngineAddress, ApiVersion),
    /// Processes of this machine.
    Native,
}

/// What the command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The order above.
    Any,
    /// Containers or nothing.
    Containers,
    /// Native processes or nothing.
    Native,
}

impl Provisioner {
    /// Chooses and says what was chosen and why.
    pub(crate) fn choose(wish: Wish) -> Result<Self> {
        let engine = EngineAddress::from_environment();
        let chosen = decide(
            wish,
            variable(POSTGRES_URL),
            variable(KAFKA_BOOTSTRAP),
            || engine.and_then(|address| Some((address.clone(), address.api_version()?))),
        )?;
        match &chosen {
            Self::Explicit(endpoints) => println!(
                "services: explicit endpoints from {POSTGRES_URL} and {KAFKA_BOOTSTRAP} ({})",
                endpoints.kafka_bootstrap
            ),
            Self::Engine(address, (major, minor)) => println!(
                "services: containers of the Docker engine at {address} (API {major}.{minor})"
            ),
            Self::Native if wish == Wish::Native => {
                println!("services: native processes, as asked")
            }
            Self::Native => println!("services: native processes; no Docker engine answers"),
        }
        Ok(chosen)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn decide(
    wish: Wish,
    postgres_url: Option<String>,
    kafka_bootstrap: Option<String>,
    engine: impl FnOnce() -> Option<(EngineAddress, ApiVersion)>,
) -> Result<Provisioner> {
    match wish {
        Wish::Native => return Ok(Provisioner::Native),
        Wish::Containers => {
            return match engine() {
                Some((address, version)) => Ok(Provisioner::Engine(address, version)),
                None => bail!(
                    "--containers needs a Docker engine, and none answers at DOCKER_HOST or \
                     /var/run/docker.sock"
                ),
            };
        }
        Wish::Any => {}
    }
    match (postgres_url, kafka_bootstrap) {
        (Some(postgres_url), Some(kafka_bootstrap)) => Ok(Provisioner::Explicit(Endpoints {
            postgres_url,
            kafka_bootstrap,
        })),
        (None, None) => Ok(match engine() {
            Some((address, version)) => Provisioner::Engine(address, version),
            None => Provisioner::Native,
        }),
        (Some(_), None) => {
            bail!("{POSTGRES_URL} is set but {KAFKA_BOOTSTRAP} is not: set both or none")
        }
        (None, Some(_)) => {
            bail!("{KAFKA_BOOTSTRAP} is set but {POSTGRES_URL} is not: set both or none")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Option<(EngineAddress, ApiVersion)> {
        Some((EngineAddress::Tcp("127.0.0.1:1".to_owned()), (1, 41)))
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn explicit_endpoints_win_over_an_engine() {
        let chosen = decide(Wish::Any, some("postgres://"), some("k:1"), engine).unwrap();
        assert!(matches!(chosen, Provisioner::Explicit(e) if e.kafka_bootstrap == "k:1"));
    }

    #[test]
    fn an_engine_wins_over_native_processes() {
        let chosen = decide(Wish::Any, None, None, engine).unwrap();
        assert!(matches!(chosen, Provisioner::Engine(_, (1, 41))));
        let chosen = decide(Wish::Any, None, None, || None).unwrap();
        assert!(matches!(chosen, Provisioner::Native));
    }

    #[test]
    fn half_a_choice_and_a_missing_engine_are_errors() {
        assert!(decide(Wish::Any, some("postgres://"), None, engine).is_err());
        assert!(decide(Wish::Any, None, some("k:1"), engine).is_err());
        assert!(decide(Wish::Containers, some("p"), some("k"), || None).is_err());
    }
}
