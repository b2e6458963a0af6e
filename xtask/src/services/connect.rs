//! A Kafka Connect worker with the Debezium connector, for a benchmark to compare with.
//!
//! Invariant: it answers on 127.0.0.1 only, and it ends with the handle that started it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::lock::ServicesLock;
use super::state::ServicesHome;
use super::{download, kafka, probe};
use crate::process::{ProcessIdentity, log_tail, spawn_detached};
use crate::wait;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running worker.
pub(crate) struct ConnectWorker {
    process: ProcessIdentity,
    port: u16,
    folder: std::path::PathBuf,
}

impl ConnectWorker {
    /// Downloads the connector when the cache has none, starts a worker on the broker and waits
    /// until it answers.
    pub(crate) fn start(bootstrap: &str) -> Result<Self> {
        let home = ServicesHome::from_environment()?;
        let (libs, plugin) = {
            let _lock = home.lock()?;
            let (cache, lock) = (home.cache()?, ServicesLock::load()?);
            (
                download::kafka(&cache, &lock.kafka)?,
                download::debezium(&cache, &lock.debezium)?,
            )
        };
        let java = kafka::java()?;
        let name = format!(
            "connect-{:016x}",
            u64::from_le_bytes(probe::random_bytes()?)
        );
        let folder = home.base().join(&name);
        std::fs::create_dir_all(&folder).context("create the Connect folder")?;
        let port = probe::free_port(&[])?;
        // Kafka Connect looks for plug-ins one folder below its path.
        let plugins = folder.join("plugins");
        std::fs::create_dir_all(&plugins).context("create the plug-in folder")?;
        std::os::unix::fs::symlink(&plugin, plugins.join("debezium"))
            .context("link the plug-in")?;
        let properties = folder.join("connect.properties");
        std::fs::write(&properties, worker(bootstrap, port, &name, &plugins))
            .context("write connect.properties")?;
        let logging = folder.join("log4j2.properties");
        std::fs::write(&logging, kafka::LOGGING).context("write log4j2.properties")?;
        let log = folder.join("connect.log");
        let process = spawn_detached(
            Command::new(java)
                .args(["-Xmx700m", "-XX:+UseG1GC"])
                .arg(format!(
                    "-Dlog4j2.configurationFile=file:{}",
                    logging.display()
                ))
                .args(["-cp", &format!("{}/*", libs.display())])
                .arg("org.apache.kafka.connect.cli.ConnectDistributed")
                .arg(&properties)
                .current_dir(&folder),
            &log,
        )?;
        let started = Self {
            process,
            port,
            folder,
        };
        wait::until("Kafka Connect answering", Duration::from_secs(120), || {
            if !process.is_alive() {
                bail!("Kafka Connect ended");
            }
            Ok(started.answers())
        })
        .with_context(|| log_tail(&log))?;
        println!("kafka connect with Debezium at {}", started.url());
        Ok(started)
    }

    /// `host:port` of its REST interface.
    pub(crate) fn url(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Whether the worker has joined its group, which it has once it lists its connectors.
    fn answers(&self) -> bool {
        let ask = || -> Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /connectors HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for ConnectWorker {
    fn drop(&mut self) {
        let stopped = self
            .process
            .stop(rustix::process::Signal::TERM, Duration::from_secs(30));
        if let Err(error) = stopped {
            println!("kafka connect was not stopped: {error:#}");
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            println!("{} was not removed: {error}", self.folder.display());
        }
    }
}

fn worker(bootstrap: &str, port: u16, name: &str, plugins: &Path) -> String {
    format!(
        "bootstrap.servers={bootstrap}\n\
         group.id={name}\n\
         listeners=http://127.0.0.1:{port}\n\
         plugin.path={}\n\
         plugin.discovery=only_scan\n\
         key.converter=org.apache.kafka.connect.storage.StringConverter\n\
         value.converter=org.apache.kafka.connect.json.JsonConverter\n\
         config.storage.topic={name}-configs\n\
         config.storage.replication.factor=1\n\
         offset.storage.topic={name}-offsets\n\
         offset.storage.replication.factor=1\n\
         offset.storage.partitions=1\n\
         status.storage.topic={name}-status\n\
         status.storage.replication.factor=1\n\
         status.storage.partitions=1\n",
        plugins.display()
    )
}
