//! A broker of one test that can be away.
//!
//! Invariant: it ends with its value, or, should the test process vanish, with the pipe that the
//! process held; while it is away the kernel says that it is stopped.

use crate::server::{process_state, send};
use crate::support::{environment, eventually};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(90);

pub(crate) struct OwnBroker {
    pub(crate) bootstrap: String,
    pid: u32,
    // Dropped before its folder.
    guard: Child,
    _folder: tempfile::TempDir,
}

impl OwnBroker {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let (broker, controller) = (free_port(), free_port());
        let file = folder.path().join("server.properties");
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
             controller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\nauto.create.topics.enable=false\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n",
            folder.path().join("data").display(),
        );
        std::fs::write(&file, properties).expect("properties");
        format(&file);
        let (guard, pid) = run(&file, folder.path());
        let this = Self {
            bootstrap: format!("127.0.0.1:{broker}"),
            pid,
            guard,
            _folder: folder,
        };
        this.answers().await;
        this
    }

    /// Stops answering; connections stay open, as at a machine that hangs.
    pub(crate) async fn leave(&self) {
        send(self.pid, "-STOP");
        eventually("the broker is stopped", SOON, async || {
            (process_state(self.pid) == 'T').then_some(())
        })
        .await;
    }

    /// Comes back; it was away until now.
    pub(crate) async fn come_back(&self) {
        assert_eq!(process_state(self.pid), 'T', "it did not stay away");
        send(self.pid, "-CONT");
        self.answers().await;
    }

    async fn answers(&self) {
        let consumer: BaseConsumer = rdkafka::ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .create()
            .expect("client");
        let answered = tokio::task::spawn_blocking(move || {
            let until = Instant::now() + SOON;
            while Instant::now() < until {
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
        let _ = self.guard.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("address").port()
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

fn format(file: &Path) {
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
        .expect("java");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn run(file: &Path, folder: &Path) -> (Child, u32) {
    let words = java(&["kafka.Kafka", file.to_str().expect("UTF-8 path")]);
    let log = folder.join("broker.log");
    // The shell reads a pipe that nobody writes: its end is the end of the test.
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(
            "log=$1; shift; \"$@\" </dev/null >\"$log\" 2>&1 & broker=$!; echo $broker; read -r _; \
             kill -9 $broker; wait $broker",
        )
        .arg("broker")
        .arg(log)
        .args(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("broker");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("the broker's id");
    let pid = line.trim().parse().expect("a process id");
    (child, pid)
}
