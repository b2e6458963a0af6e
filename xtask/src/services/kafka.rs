//! One native Kafka broker on loopback, its own controller, without authentication.
//!
//! Invariant: it listens on 127.0.0.1 only and creates no topic by itself; the one topic that
//! the local profile needs is created here, because the product never creates topics.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::download::required_program;
use super::lock::JarsLock;
use super::probe;
use super::state::{Service, ServicesHome};
use crate::process::{log_tail, run_quietly, spawn_detached};
use crate::wait;

/// The topic of the local profile.
pub(crate) const TOPIC: &str = "portfolio.domain-events.v1";
/// Its partitions.
pub(crate) const PARTITIONS: u16 = 3;

/// Formats fresh storage, starts the broker and creates [`TOPIC`].
pub(crate) fn start(
    home: &ServicesHome,
    libs: &Path,
    lock: &JarsLock,
    taken: &[u16],
) -> Result<Service> {
    let run = home.run().join("kafka");
    if run.exists() {
        std::fs::remove_dir_all(&run).context("remove old Kafka data")?;
    }
    std::fs::create_dir_all(&run).context("create the Kafka folder")?;
    let java = java()?;
    let port = probe::free_port(taken)?;
    let mut taken = taken.to_vec();
    taken.push(port);
    let controller = probe::free_port(&taken)?;

    let data = run.join("data");
    let properties = run.join("server.properties");
    std::fs::write(&properties, server_properties(port, controller, &data))
        .context("write server.properties")?;
    let logging = run.join("log4j2.properties");
    std::fs::write(&logging, LOGGING).context("write log4j2.properties")?;
    let classpath = format!("{}/*", libs.display());
    run_quietly(
        tool(&java, &classpath)
            .arg("kafka.tools.StorageTool")
            .args(["format", "-t", &new_cluster_id()?, "-c"])
            .arg(&properties),
        "format Kafka's storage",
    )?;

    let log = home.logs().join("kafka.log");
    let process = spawn_detached(
        Command::new(&java)
            .args(["-Xmx400m", "-Xms128m", "-XX:+UseSerialGC"])
            .arg(format!(
                "-Dlog4j2.configurationFile=file:{}",
                logging.display()
            ))
            .args(["-cp", &classpath, "kafka.Kafka"])
            .arg(&properties)
            .current_dir(&run),
        &log,
    )?;
    let bootstrap = format!("127.0.0.1:{port}");
    let ready = wait::until("Kafka answering", Duration::from_secs(90), || {
        if !process.is_alive() {
            bail!("Kafka ended");
        }
        Ok(probe::kafka_answers(&bootstrap))
    })
    .and_then(|()| create_topic(&java, &classpath, &bootstrap));
    if let Err(error) = ready {
        process.stop(rustix::process::Signal::TERM, Duration::from_secs(10))?;
        return Err(error.context(log_tail(&log)));
    }
    Ok(Service {
        version: lock.version.clone(),
        process,
        port,
        data,
        log,
    })
}

/// Creates [`TOPIC`] with one replica.
pub(crate) fn create_topic(java: &Path, classpath: &str, bootstrap: &str) -> Result<()> {
    run_quietly(
        tool(java, classpath)
            .arg("org.apache.kafka.tools.TopicCommand")
            .args([
                "--bootstrap-server",
                bootstrap,
                "--create",
                "--if-not-exists",
            ])
            .args(["--topic", TOPIC, "--replication-factor", "1"])
            .args(["--partitions", &PARTITIONS.to_string()])
            // Records carry the time of their event, which the sample puts months back.
            .args(["--config", "retention.ms=-1"]),
        "create the local profile's topic",
    )?;
    Ok(())
}

/// A Java of at least 17, which is what Kafka 4 needs.
pub(crate) fn java() -> Result<PathBuf> {
    let java = required_program("java", "a Java runtime 17 or later, which runs Kafka")?;
    let said = Command::new(&java)
        .arg("-version")
        .output()
        .context("ask java for its version")?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    match major_version(&text) {
        Some(major) if major >= 17 => Ok(java),
        _ => bail!(
            "Kafka needs Java 17 or later, but {} says: {}",
            java.display(),
            text.trim()
        ),
    }
}

fn major_version(said: &str) -> Option<u32> {
    let quoted = said.split('"').nth(1)?;
    quoted.split(['.', '-', '+']).next()?.parse().ok()
}

/// A short-lived tool: the cheapest compiler and collector start fastest.
fn tool(java: &Path, classpath: &str) -> Command {
    let mut command = Command::new(java);
    command
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(["-cp", classpath]);
    command
}

fn server_properties(port: u16, controller: u16, data: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={}\n\
         auto.create.topics.enable=false\n\
         default.replication.factor=1\n\
         min.insync.replicas=1\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\n\
         group.initial.rebalance.delay.ms=0\n",
        data.display()
    )
}

/// What a Kafka program logs: warnings, to standard output.
pub(super) const LOGGING: &str = "\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=OUT
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %m (%c)%n
";

/// The first bit is clear, so that the id never begins with a dash and passes for an option.
fn new_cluster_id() -> Result<String> {
    let mut bytes: [u8; 16] = probe::random_bytes()?;
    bytes[0] &= 0x7f;
    Ok(cluster_id(&bytes))
}

/// Sixteen bytes in the URL alphabet of base 64 without padding (RFC 4648 §5), which is what
/// Kafka takes for a cluster id.
fn cluster_id(bytes: &[u8; 16]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let value = u128::from_be_bytes(*bytes);
    let letter = |bits: u128| char::from(ALPHABET[(bits & 63) as usize]);
    // 128 bits are 21 letters and two bits; the last letter holds those two and four zeros.
    (0..21)
        .map(|index| letter(value >> (122 - 6 * index)))
        .chain([letter(value << 4)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_is_url_base64() {
        assert_eq!(cluster_id(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(cluster_id(&[0xff; 16]), "_____________________w");
        assert_eq!(cluster_id(b"0123456789abcdef"), "MDEyMzQ1Njc4OWFiY2RlZg");
    }

    #[test]
    fn the_java_version_is_read_from_what_java_says() {
        assert_eq!(
            major_version("openjdk version \"17.0.15\" 2025-04-15"),
            Some(17)
        );
        assert_eq!(
            major_version("openjdk version \"25-ea\" 2025-09-16"),
            Some(25)
        );
        assert_eq!(major_version("java version \"1.8.0_202\""), Some(1));
        assert_eq!(major_version("nothing"), None);
    }
}
