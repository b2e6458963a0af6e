//! Real services for tests and for the local Kafka profile: PostgreSQL and Kafka as native
//! processes of this machine (`native`), from a Docker engine (`containers`), or somewhere else
//!
//! Invariant: a service is stopped only by the state that recorded its start; nothing is ever
//! looked for by name.

mod account;
pub(crate) mod connect;
#[cfg(feature = "containers")]
pub(crate) mod containers;
mod download;
pub(crate) mod engine;
mod kafka;
pub(crate) mod local_engine;
mod lock;
mod native;
mod postgres;
pub(crate) mod probe;
pub(crate) mod provisioner;
mod state;

pub(crate) use native::{Up, down, endpoints, environment, kafka_classpath, release, status, up};
pub(crate) use state::User;

/// Where the tests find the services; exported to them as environment variables.
#[derive(Clone)]
pub(crate) struct Endpoints {
    /// A superuser's URL of PostgreSQL; each test makes its own database or schema there.
    pub(crate) postgres_url: String,
    /// `host:port` of a Kafka broker.
    pub(crate) kafka_bootstrap: String,
}

/// Names the URL of PostgreSQL for tests.
pub(crate) const POSTGRES_URL: &str = "COUNTERSIGN_TEST_POSTGRES_URL";
/// Names the broker for tests.
pub(crate) const KAFKA_BOOTSTRAP: &str = "COUNTERSIGN_TEST_KAFKA_BOOTSTRAP";
/// Names the jars with Kafka's own tools for tests, as a Java class path.
pub(crate) const KAFKA_CLASSPATH: &str = "COUNTERSIGN_TEST_KAFKA_CLASSPATH";
