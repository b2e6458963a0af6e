//! Databases, topics and profiles of a measurement's own.
//!
//! Invariant: a profile is a checked-in one but for endpoints, topic and, where it says so, the number
//! of workers, so what is measured is what `serve` runs. A filled database is copied for each drain,
//! so that every drain begins with the same rows.

use crate::report::Report;
use app_bootstrap::compose::{Compiled, contracts};
use app_bootstrap::config::{self, ExpectedState};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Partitions of a topic.
const PARTITIONS: i32 = 3;
/// How long anything here may take before the run gives up.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// Which claim card a relay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Card {
    /// `local-kafka.toml`.
    PerRecord,
    /// The same with as many workers as that card allows.
    PerRecordWide,
    /// `local-kafka-window.toml`.
    Window,
}

/// Where Kafka is.
pub(crate) fn bootstrap() -> String {
    environment("COUNTERSIGN_TEST_KAFKA_BOOTSTRAP")
}

/// The URL of PostgreSQL's own database.
pub(crate) fn server() -> String {
    environment("COUNTERSIGN_TEST_POSTGRES_URL")
}

fn environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run this by `cargo xtask bench outbox`"))
}

fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nanos = UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("bench_{name}_{number}_{nanos}")
}

/// Notes what the figures were measured on, and refuses a server whose commits are not synced: its
/// figures would say nothing.
pub(crate) async fn describe(report: &mut Report) {
    let mut connection = PgConnection::connect(&server()).await.expect("PostgreSQL");
    let mut noted = Vec::new();
    for name in [
        "server_version",
        "fsync",
        "synchronous_commit",
        "wal_level",
        "shared_buffers",
    ] {
        let value: String = sqlx::query_scalar("SELECT current_setting($1)")
            .bind(name)
            .fetch_one(&mut connection)
            .await
            .expect("a setting");
        noted.push((name, value));
    }
    for (name, value) in &noted {
        assert!(
            !(["fsync", "synchronous_commit"].contains(name) && value == "off"),
            "{name} is off"
        );
        println!("PostgreSQL {name} = {value}");
    }
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    report.value("cores", cores as f64, "");
}

/// A database with the outbox's schema.
pub(crate) struct Database {
    name: String,
}

impl Database {
    /// A new one, brought up to date by the shipped migrations.
    pub(crate) async fn create(name: &str) -> Self {
        let database = Self { name: unique(name) };
        maintain(format!("CREATE DATABASE {}", database.name)).await;
        let scene = Scene::on(&database, Card::Window).await;
        scene.open().await.close().await;
        scene.remove().await;
        database
    }

    /// The same rows in another database. Nobody may be connected to this one.
    pub(crate) async fn copy(&self) -> Self {
        let copy = Self {
            name: unique("copy"),
        };
        maintain(format!(
            "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY",
            copy.name, self.name
        ))
        .await;
        copy
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> String {
        match server().rsplit_once('/') {
            Some((host, _)) => format!("{host}/{}", self.name),
            None => panic!("the server's URL has no database"),
        }
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url())
            .await
            .expect("PostgreSQL")
    }

    pub(crate) async fn remove(self) {
        maintain(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

/// Runs a statement on the server's own database. One that fills it needs nobody else in its
/// template, whose last sessions may still be ending.
async fn maintain(statement: String) {
    let mut connection = PgConnection::connect(&server()).await.expect("PostgreSQL");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let done = sqlx::query(AssertSqlSafe(statement.clone()))
            .execute(&mut connection)
            .await;
        match done {
            Ok(_) => return,
            Err(error) => assert!(Instant::now() < until, "{statement}: {error}"),
        }
        pause(Duration::from_millis(100)).await;
    }
}

/// A topic and a profile on a database.
pub(crate) struct Scene {
    pub(crate) compiled: Compiled,
    pub(crate) topic: Topic,
    pub(crate) profile: PathBuf,
    folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn on(database: &Database, card: Card) -> Self {
        Self::at(&database.url(), card).await
    }

    /// The same with a URL that leads to a database by another way.
    pub(crate) async fn at(url: &str, card: Card) -> Self {
        let topic = Topic::create().await;
        let folder = tempfile::tempdir().expect("a folder");
        let profile = write_profile(card, folder.path(), &topic.name, url);
        let ExpectedState::Active(active) = config::load(&profile).expect("the profile").state
        else {
            panic!("the profile is active");
        };
        let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
            .expect("the contracts");
        Self {
            compiled,
            topic,
            profile,
            folder,
        }
    }

    /// A file of the scene's own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The store as `serve` opens it.
    pub(crate) async fn open(&self) -> app_bootstrap::compose::Store {
        app_bootstrap::compose::Store::open(&self.compiled)
            .await
            .expect("the store")
    }

    pub(crate) async fn remove(self) {
        self.topic.remove().await;
    }
}

/// A topic of three partitions with one replica.
pub(crate) struct Topic {
    pub(crate) name: String,
    watch: BaseConsumer,
}

impl Topic {
    pub(crate) async fn create() -> Self {
        let name = format!("portfolio.{}", unique("topic").replace('_', "-"));
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(20)));
        // The events' time lies months back, and a record carries its event's time.
        let new =
            NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(1)).set("retention.ms", "-1");
        let results = admin().create_topics([&new], &options).await;
        assert_eq!(results.expect("asked"), [Ok(name.clone())]);
        let watch = ClientConfig::new()
            .set("bootstrap.servers", bootstrap())
            .create()
            .expect("a client");
        Self { name, watch }
    }

    /// Records that the topic has, by its end offsets.
    pub(crate) fn records(&self) -> u64 {
        (0..PARTITIONS)
            .map(|partition| {
                let (_, end) = self
                    .watch
                    .fetch_watermarks(&self.name, partition, Duration::from_secs(10))
                    .expect("end offsets");
                u64::try_from(end).unwrap_or_default()
            })
            .sum()
    }

    pub(crate) async fn remove(self) {
        let gone = admin()
            .delete_topics(&[&self.name], &AdminOptions::new())
            .await;
        gone.expect("deleted");
    }
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .create()
        .expect("an admin client")
}

/// Looks until a condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(
    what: &str,
    every: Duration,
    mut holds: impl FnMut() -> F,
) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        pause(every).await;
    }
}

/// Waits for an instant; paced work is measured by it.
#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at a condition, and the pace of single events"
)]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The greatest resident memory of a process so far.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    kib / 1024.0
}

fn write_profile(card: Card, folder: &Path, topic: &str, url: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let secret = folder.join("postgres.url");
    std::fs::write(&secret, url).expect("the secret");
    let endpoints = folder.join("endpoints.toml");
    let text = format!(
        "[kafka]\nbootstrap-servers = [\"{}\"]\n[database]\nurl = \"secret://file{}\"\n",
        bootstrap(),
        secret.display()
    );
    std::fs::write(&endpoints, text).expect("the endpoints");
    let messaging = root
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let file = match card {
        Card::PerRecord | Card::PerRecordWide => "local-kafka.toml",
        Card::Window => "local-kafka-window.toml",
    };
    let mut replaced = vec![
        (
            "../../target/services/endpoints.toml",
            endpoints.display().to_string(),
        ),
        ("../messaging/", format!("{}/", messaging.display())),
        ("portfolio.domain-events.v1", topic.to_owned()),
        // A backlog waits here until the drains before it are done.
        (
            "maximum-automatic-publication-age = \"15m\"",
            "maximum-automatic-publication-age = \"6h\"".to_owned(),
        ),
    ];
    if card == Card::PerRecordWide {
        replaced.push((
            "maximum-admitted-records = 4\n",
            "maximum-admitted-records = 64\n".to_owned(),
        ));
        replaced.push((
            "maximum-connections = 10",
            "maximum-connections = 70".to_owned(),
        ));
        replaced.push((
            "buffer-memory-bytes = 33554432",
            "buffer-memory-bytes = 134217728".to_owned(),
        ));
    }
    let mut text =
        std::fs::read_to_string(root.join("config/profiles").join(file)).expect("a profile");
    for (from, to) in replaced {
        assert!(text.contains(from), "{from} is not in {file}");
        text = text.replace(from, &to);
    }
    let profile = folder.join("profile.toml");
    std::fs::write(&profile, text).expect("the profile");
    profile
}
