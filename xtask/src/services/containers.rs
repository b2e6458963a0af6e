//! PostgreSQL and Kafka from a Docker engine, through testcontainers.
//!
//! Invariant: a local engine publishes the ports on 127.0.0.1 only, and the containers are
//! removed when the handle is dropped.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use testcontainers::core::{IntoContainerPort as _, WaitFor};
use testcontainers::runners::SyncRunner as _;
use testcontainers::{Container, ContainerRequest, GenericImage, ImageExt as _};

use super::engine::EngineAddress;
use super::postgres::DATABASE;
use super::{Endpoints, kafka, probe};
use crate::wait;

/// Names the PostgreSQL image, `postgres:16` by default.
const POSTGRES_IMAGE: &str = "COUNTERSIGN_TEST_POSTGRES_IMAGE";
/// Names the Kafka image, `apache/kafka:4.3.1` by default.
const KAFKA_IMAGE: &str = "COUNTERSIGN_TEST_KAFKA_IMAGE";

/// Two running containers.
pub(crate) struct Containers {
    endpoints: Endpoints,
    _postgres: Container<GenericImage>,
    _kafka: Container<GenericImage>,
}

impl Containers {
    /// Starts both and waits until both answer.
    pub(crate) fn start(engine: &EngineAddress, kafka_classpath: &str) -> Result<Self> {
        let host = match engine {
            EngineAddress::Unix(_) => "127.0.0.1".to_owned(),
            EngineAddress::Tcp(address) => address
                .rsplit_once(':')
                .map_or(address.clone(), |(host, _)| host.to_owned()),
        };
        let local = matches!(engine, EngineAddress::Unix(_)) || host == "127.0.0.1";
        let (postgres, postgres_url) = start_postgres(&host, local)?;
        let (kafka, kafka_bootstrap) = start_kafka(&host, local, kafka_classpath)?;
        Ok(Self {
            endpoints: Endpoints {
                postgres_url,
                kafka_bootstrap,
            },
            _postgres: postgres,
            _kafka: kafka,
        })
    }

    /// Where they listen.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }
}

fn start_postgres(host: &str, local: bool) -> Result<(Container<GenericImage>, String)> {
    let (name, tag) = image(POSTGRES_IMAGE, "postgres:16")?;
    println!("postgres: container of {name}:{tag}");
    let password = probe::random_bytes::<24>()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let port = probe::free_port(&[])?;
    let request = GenericImage::new(name, tag)
        .with_wait_for(WaitFor::Nothing)
        .with_env_var("POSTGRES_PASSWORD", &password)
        .with_env_var("POSTGRES_DB", DATABASE)
        .with_cmd([
            "postgres",
            "-c",
            "wal_level=logical",
            "-c",
            "max_connections=200",
        ]);
    let container = publish(request, port, 5432, local)
        .start()
        .context("start PostgreSQL")?;
    let address = format!("{host}:{port}");
    // The image starts a server without TCP to initialize and then the real one, so the first
    // answer over TCP comes from the real one.
    await_answer("PostgreSQL", &container, || {
        probe::postgres_answers(&address)
    })?;
    let url = format!("postgres://postgres:{password}@{address}/{DATABASE}");
    Ok((container, url))
}

fn start_kafka(
    host: &str,
    local: bool,
    classpath: &str,
) -> Result<(Container<GenericImage>, String)> {
    let (name, tag) = image(KAFKA_IMAGE, "apache/kafka:4.3.1")?;
    println!("kafka: container of {name}:{tag}");
    let port = probe::free_port(&[])?;
    let bootstrap = format!("{host}:{port}");
    // The broker also talks to itself (it asks the coordinator about each transaction's partitions),
    // and the published port is not to be reached from inside the container.
    let advertised = format!("PLAINTEXT://{bootstrap},INTERNAL://127.0.0.1:9094");
    let mut request = GenericImage::new(name, tag)
        .with_wait_for(WaitFor::Nothing)
        .with_env_var("KAFKA_ADVERTISED_LISTENERS", advertised);
    for (key, value) in [
        ("KAFKA_NODE_ID", "1"),
        ("KAFKA_PROCESS_ROLES", "broker,controller"),
        (
            "KAFKA_LISTENERS",
            "PLAINTEXT://:9092,INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        ),
        ("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER"),
        ("KAFKA_INTER_BROKER_LISTENER_NAME", "INTERNAL"),
        (
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
            "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        ),
        ("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@127.0.0.1:9093"),
        ("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false"),
        ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "1"),
        ("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "4"),
        ("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1"),
        ("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1"),
        ("KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS", "4"),
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0"),
        ("KAFKA_HEAP_OPTS", "-Xmx400m -Xms128m"),
    ] {
        request = request.with_env_var(key, value);
    }
    let container = publish(request, port, 9092, local)
        .start()
        .context("start Kafka")?;
    await_answer("Kafka", &container, || probe::kafka_answers(&bootstrap))?;
    kafka::create_topic(&kafka::java()?, classpath, &bootstrap)?;
    Ok((container, bootstrap))
}

fn publish(
    request: ContainerRequest<GenericImage>,
    host_port: u16,
    container_port: u16,
    local: bool,
) -> ContainerRequest<GenericImage> {
    request
        .with_mapped_port(host_port, container_port.tcp())
        .with_host_config_modifier(move |config| {
            let bindings = config
                .port_bindings
                .iter_mut()
                .flat_map(|map| map.values_mut());
            for binding in bindings.flatten().flatten() {
                if local {
                    binding.host_ip = Some("127.0.0.1".to_owned());
                }
            }
        })
}

fn await_answer(
    what: &str,
    container: &Container<GenericImage>,
    answers: impl Fn() -> bool,
) -> Result<()> {
    let answered = wait::until(
        &format!("{what} answering"),
        Duration::from_secs(120),
        || {
            if !container.is_running().context("look at a container")? {
                bail!("the container of {what} ended");
            }
            Ok(answers())
        },
    );
    answered.map_err(|error| {
        let mut said = container.stdout_to_vec().unwrap_or_default();
        said.extend(container.stderr_to_vec().unwrap_or_default());
        let text = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        error.context(lines[lines.len().saturating_sub(15)..].join("\n"))
    })
}

fn image(variable: &str, default: &str) -> Result<(String, String)> {
    let image = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => Ok((name.to_owned(), tag.to_owned())),
        _ => bail!("{variable} must be NAME:TAG, not {image}"),
    }
}
