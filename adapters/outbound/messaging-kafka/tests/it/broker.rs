//! A broker of one test, reached only through a proxy.
//!
//! Invariant: it advertises the proxy's address, and it ends with its guard, or, should the test
//! process vanish, with the pipe that the process held.

use crate::proxy::Proxy;
use crate::topic::environment;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

pub(crate) struct OwnBroker {
    pub(crate) proxy: Proxy,
    // Dropped before its folder.
    guard: Child,
    _folder: tempfile::TempDir,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("address").port()
}

impl OwnBroker {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let (broker, controller) = (free_port(), free_port());
        let listen = SocketAddr::from(([127, 0, 0, 1], broker));
        let proxy = Proxy::start(listen).await;
        let file = folder.path().join("server.properties");
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://{listen},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://{}\n\
             controller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\nauto.create.topics.enable=false\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n",
            proxy.address,
            folder.path().join("data").display(),
        );
        std::fs::write(&file, properties).expect("properties");
        format(&file).await;
        let guard = run(&file, folder.path());
        let this = Self {
            proxy,
            guard,
            _folder: folder,
        };
        this.answers().await;
        this
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.proxy.address.to_string()
    }

    async fn answers(&self) {
        use rdkafka::consumer::{BaseConsumer, Consumer as _};
        let consumer: BaseConsumer = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap())
            .create()
            .expect("client");
        let answered = tokio::task::spawn_blocking(move || {
            let until = std::time::Instant::now() + Duration::from_secs(60);
            while std::time::Instant::now() < until {
                if let Ok(metadata) = consumer.fetch_metadata(None, Duration::from_secs(5))
                    && !metadata.brokers().is_empty()
                {
                    return true;
                }
            }
            false
        });
        assert!(answered.await.expect("probe"), "the broker never answered");
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        // Closing the pipe ends the broker; the shell waits for it.
        drop(self.guard.stdin.take());
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while std::time::Instant::now() < until {
            if !matches!(self.guard.try_wait(), Ok(None)) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

fn java(classes: &[&str]) -> Vec<String> {
    let mut words = vec![
        "java".to_owned(),
        "-Xmx300m".to_owned(),
        "-XX:+UseSerialGC".to_owned(),
        "-cp".to_owned(),
        environment("COUNTERSIGN_TEST_KAFKA_CLASSPATH"),
    ];
    words.extend(classes.iter().map(|word| (*word).to_owned()));
    words
}

async fn format(file: &Path) {
    let file = file.to_str().expect("UTF-8 path");
    let tool = java(&[
        "kafka.tools.StorageTool",
        "format",
        "-t",
        "MkU3OEVBNTcwNTJENDM2Qg",
        "-c",
        file,
    ]);
    let output = Command::new(&tool[0])
        .args(&tool[1..])
        .output()
        .await
        .expect("java");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn run(file: &Path, folder: &Path) -> Child {
    let words = java(&["kafka.Kafka", file.to_str().expect("UTF-8 path")]);
    let log = std::fs::File::create(folder.join("broker.log")).expect("log");
    // The shell reads a pipe that nobody writes: its end is the end of the test.
    Command::new("/bin/sh")
        .arg("-c")
        .arg("\"$@\" </dev/null & broker=$!; read -r _; kill -9 $broker; wait $broker")
        .arg("broker")
        .args(&words)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("log"))
        .stderr(log)
        .spawn()
        .expect("broker")
}
