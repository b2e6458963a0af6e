//! Three brokers that can hang, die and come back.
//!
//! Invariant: each broker ends with the process, whose pipe its shell reads; one that was killed
//! keeps its log. The first is the controller too and stays, so that what the others' absence does
//! is decided by replicas alone.

use crate::topic::{environment, unique_name};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long brokers may take to come, to go, and to follow each other again.
const SOON: Duration = Duration::from_secs(90);

/// The one that stays.
pub(crate) const CONTROLLER: i32 = 1;

pub(crate) struct Cluster {
    ports: BTreeMap<i32, u16>,
    folder: PathBuf,
    running: Mutex<BTreeMap<i32, Running>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct Running {
    guard: Child,
    pid: u32,
}

/// One partition as the brokers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) leader: i32,
    pub(crate) in_sync: usize,
}

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("bind"));
    listeners.map(|listener| listener.local_addr().expect("address").port())
}

impl Cluster {
    /// The cluster, all brokers well, until the guard is dropped.
    pub(crate) async fn exclusive() -> (&'static Self, tokio::sync::OwnedMutexGuard<()>) {
        let cluster: &'static Self = &CLUSTER;
        let turn = Arc::clone(&cluster.turn).lock_owned().await;
        for broker in [1, 2, 3] {
            cluster.resume(broker);
        }
        (cluster, turn)
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().expect("folder").keep();
        let [controller, ports @ ..] = free_ports::<4>();
        let this = Self {
            ports: (1..).zip(ports).collect(),
            folder,
            running: Mutex::default(),
            turn: Arc::default(),
        };
        std::thread::scope(|scope| {
            for (&id, &port) in &this.ports {
                let this = &this;
                scope.spawn(move || this.format(id, port, controller));
            }
        });
        for id in [1, 2, 3] {
            this.run(id);
        }
        this.wait("three brokers", |consumer| {
            let metadata = consumer.fetch_metadata(None, Duration::from_secs(5)).ok()?;
            (metadata.brokers().len() == 3).then_some(())
        });
        this
    }

    /// First brokers to ask.
    pub(crate) fn bootstrap(&self) -> Vec<String> {
        let addresses = self.ports.values().map(|port| format!("127.0.0.1:{port}"));
        addresses.collect()
    }

    /// A topic whose partition `n` has its replicas on these brokers, the first one leading.
    pub(crate) async fn topic(&self, replicas: &[&[i32]]) -> String {
        let name = unique_name();
        let partitions = i32::try_from(replicas.len()).expect("few");
        let new = NewTopic::new(&name, partitions, TopicReplication::Variable(replicas))
            .set("min.insync.replicas", "2")
            .set("retention.ms", "-1");
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap().join(","))
            .create()
            .expect("admin client");
        let options = AdminOptions::new().operation_timeout(Some(SOON));
        let made = admin.create_topics([&new], &options).await.expect("asked");
        assert_eq!(made, [Ok(name.clone())]);
        self.in_sync(&name).await;
        name
    }

    /// Waits until every partition's replicas all follow their leader.
    pub(crate) async fn in_sync(&self, topic: &str) {
        self.until(topic, "all replicas follow", |partitions| {
            partitions
                .iter()
                .all(|partition| partition.leader > 0 && partition.in_sync == 3)
        })
        .await;
    }

    /// Waits until no partition is led by this broker.
    pub(crate) async fn led_by_others(&self, topic: &str, broker: i32) {
        self.until(topic, "another broker leads", move |partitions| {
            partitions
                .iter()
                .all(|partition| partition.leader > 0 && partition.leader != broker)
        })
        .await;
    }

    /// Waits until the partitions are so.
    pub(crate) async fn until(
        &self,
        topic: &str,
        what: &'static str,
        wanted: impl Fn(&[Partition]) -> bool + Send + 'static,
    ) {
        let topic = topic.to_owned();
        let waiting = move || {
            CLUSTER.wait(what, |consumer| {
                let metadata = consumer
                    .fetch_metadata(Some(&topic), Duration::from_secs(5))
                    .ok()?;
                let found = metadata.topics().first()?.partitions();
                let partitions: Vec<_> = found
                    .iter()
                    .map(|partition| Partition {
                        leader: partition.leader(),
                        in_sync: partition.isr().len(),
                    })
                    .collect();
                wanted(&partitions).then_some(())
            });
        };
        tokio::task::spawn_blocking(waiting).await.expect("a look");
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&BaseConsumer) -> Option<T>) -> T {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap().join(","))
            .create()
            .expect("client");
        let until = Instant::now() + SOON;
        while Instant::now() < until {
            if let Some(found) = look(&consumer) {
                return found;
            }
            // It waits for events, of which a look brings none.
            let _ = consumer.poll(Duration::from_millis(100));
        }
        panic!("never: {what}");
    }

    /// Stops a broker in its tracks; its connections stay open, as at a machine that hangs.
    pub(crate) fn freeze(&self, broker: i32) {
        assert_ne!(broker, CONTROLLER);
        self.signal(broker, "-STOP");
    }

    /// Lets a frozen broker go on.
    pub(crate) fn thaw(&self, broker: i32) {
        self.signal(broker, "-CONT");
    }

    /// Ends a broker at once.
    pub(crate) fn kill(&self, broker: i32) {
        assert_ne!(broker, CONTROLLER);
        let mut running = self.running().remove(&broker).expect("it runs");
        let mut pipe = running.guard.stdin.take().expect("piped");
        // A word keeps the log, the end of the pipe alone would not.
        pipe.write_all(b"keep\n").expect("its shell listens");
        drop(pipe);
        running.guard.wait().expect("its shell ends");
    }

    /// Whatever was done to it, it runs again.
    pub(crate) fn resume(&self, broker: i32) {
        if self.running().contains_key(&broker) {
            self.thaw(broker);
        } else {
            self.run(broker);
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, broker: i32, signal: &str) {
        let pid = self.running()[&broker].pid.to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill").success(), "{signal} to broker {broker}");
    }

    fn format(&self, id: i32, port: u16, controller: u16) {
        let folder = self.folder.join(id.to_string());
        std::fs::create_dir(&folder).expect("folder");
        let file = folder.join("server.properties");
        let (roles, listener) = match id {
            CONTROLLER => (
                "broker,controller",
                format!(",CONTROLLER://127.0.0.1:{controller}"),
            ),
            _ => ("broker", String::new()),
        };
        let properties = format!(
            "process.roles={roles}\nnode.id={id}\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port}{listener}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\nauto.create.topics.enable=false\n\
             default.replication.factor=3\nmin.insync.replicas=2\n\
             unclean.leader.election.enable=false\nauto.leader.rebalance.enable=false\n\
             broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n\
             replica.lag.time.max.ms=3000\nreplica.fetch.wait.max.ms=200\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n",
            folder.join("data").display(),
        );
        std::fs::write(&file, properties).expect("properties");
        let file = file.to_str().expect("UTF-8 path");
        let words = java(&[
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "MkU3OEVBNTcwNTJENDM2Qg",
            "-c",
            file,
        ]);
        let output = Command::new(&words[0])
            .args(&words[1..])
            .output()
            .expect("java");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn run(&self, id: i32) {
        let folder = self.folder.join(id.to_string());
        let file = folder.join("server.properties");
        let words = java(&["kafka.Kafka", file.to_str().expect("UTF-8 path")]);
        // The shell waits for a word, or for the end of the pipe, which is the end of the test.
        let mut guard = Command::new("/bin/sh")
            .arg("-c")
            .arg(
                "folder=$1; shift; \"$@\" </dev/null >>\"$folder/broker.log\" 2>&1 & broker=$!; \
                 echo $broker; read -r word; kill -9 $broker; wait $broker; \
                 test -n \"$word\" && exit 0; rm -r \"$folder\"; \
                 rmdir \"$(dirname \"$folder\")\" 2>/dev/null",
            )
            .arg("broker")
            .arg(&folder)
            .args(&words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("broker");
        let mut line = String::new();
        let mut output = BufReader::new(guard.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("the broker's id");
        let pid = line.trim().parse().expect("a process id");
        self.running().insert(id, Running { guard, pid });
    }
}

fn java(words: &[&str]) -> Vec<String> {
    let classpath = environment("COUNTERSIGN_TEST_KAFKA_CLASSPATH");
    // Short lives: the compiler that starts fastest.
    let options = [
        "java",
        "-Xmx300m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &classpath,
    ];
    let all = options.iter().chain(words);
    all.map(|word| (*word).to_owned()).collect()
}
