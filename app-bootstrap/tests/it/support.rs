//! What the tests share: the binary, waiting, and a PostgreSQL database and Kafka topic of a
//! test's own.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_countersign");

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask test` starts what is needed"))
}

pub(crate) fn countersign() -> Command {
    let mut command = Command::new(BINARY);
    command.current_dir(root()).env_remove("FAILPOINTS");
    command
}

/// Runs the demo with `--json` and reads its object; the exit code comes along.
pub(crate) fn demo_json(arguments: &[&str]) -> (Value, Output) {
    let output = countersign()
        .args(["demo", "--json"])
        .args(arguments)
        .output()
        .expect("the binary starts");
    let summary = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "no summary ({error}): {}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (summary, output)
}

/// A child that does not outlive its test, however the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks again and again until there is something, at most this long.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        pause().await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks of `eventually`"
)]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nanos = UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{nanos}", std::process::id())
}

/// A database, a topic and a profile that nobody else has.
pub(crate) struct KafkaScene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) profile: PathBuf,
    pub(crate) topic: String,
    pub(crate) bootstrap: String,
    pub(crate) url: String,
    server: String,
    database: String,
}

impl KafkaScene {
    /// With the claim card of one record a claim.
    pub(crate) async fn create() -> Self {
        Self::of_profile("local-kafka.toml").await
    }

    /// With the window claim card.
    pub(crate) async fn with_windows() -> Self {
        Self::of_profile("local-kafka-window.toml").await
    }

    async fn of_profile(checked_in: &str) -> Self {
        let bootstrap = environment("COUNTERSIGN_TEST_KAFKA_BOOTSTRAP");
        let server = environment("COUNTERSIGN_TEST_POSTGRES_URL");
        let name = unique();
        let topic = format!("portfolio.test-{name}");
        let database = format!("scene_{}", name.replace('-', "_"));
        let mut connection = PgConnection::connect(&server).await.expect("PostgreSQL");
        let create = format!("CREATE DATABASE {database}");
        sqlx::query(sqlx::AssertSqlSafe(create))
            .execute(&mut connection)
            .await
            .expect("database");
        create_topic(&bootstrap, &topic).await;
        let url = in_database(&server, &database);
        let folder = tempfile::tempdir().expect("folder");
        let profile = write_profile(checked_in, folder.path(), &topic, &bootstrap, &url);
        Self {
            folder,
            profile,
            topic,
            bootstrap,
            url,
            server,
            database,
        }
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("PostgreSQL")
    }

    /// Every value of the topic.
    pub(crate) async fn records(&self) -> Vec<Vec<u8>> {
        let (servers, topic) = (vec![self.bootstrap.clone()], self.topic.clone());
        let read = move || {
            let mut values = Vec::new();
            outbound_messaging_kafka::read_back_topic(
                &servers,
                &topic,
                Duration::from_secs(20),
                |record| values.push(record.value.to_vec()),
            )
            .map(|_| values)
        };
        tokio::task::spawn_blocking(read)
            .await
            .expect("reader")
            .expect("the topic is read to its end")
    }

    pub(crate) async fn remove(self) {
        let mut connection = PgConnection::connect(&self.server)
            .await
            .expect("PostgreSQL");
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.database);
        sqlx::query(sqlx::AssertSqlSafe(drop))
            .execute(&mut connection)
            .await
            .expect("dropped");
        admin(&self.bootstrap)
            .delete_topics(&[&self.topic], &AdminOptions::new())
            .await
            .expect("deleted");
    }
}

pub(crate) fn in_database(server: &str, database: &str) -> String {
    let (base, query) = server.split_once('?').unwrap_or((server, ""));
    let (host, _) = base.rsplit_once('/').expect("a URL with a database");
    match query {
        "" => format!("{host}/{database}"),
        query => format!("{host}/{database}?{query}"),
    }
}

pub(crate) fn admin(bootstrap: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .expect("admin client")
}

pub(crate) async fn create_topic(bootstrap: &str, topic: &str) {
    let limit = Some(Duration::from_secs(20));
    let options = AdminOptions::new()
        .request_timeout(limit)
        .operation_timeout(limit);
    // The sample's events lie months back, and a record carries its event's time.
    let new = NewTopic::new(topic, 3, TopicReplication::Fixed(1)).set("retention.ms", "-1");
    let results = admin(bootstrap)
        .create_topics([&new], &options)
        .await
        .expect("create topics");
    assert_eq!(results, [Ok(topic.to_owned())]);
}

/// The checked-in profile with this scene's endpoints and topic, and with budgets short enough
/// for a lease to lapse within a test.
fn write_profile(
    checked_in: &str,
    folder: &Path,
    topic: &str,
    bootstrap: &str,
    url: &str,
) -> PathBuf {
    let secret = folder.join("postgres.url");
    std::fs::write(&secret, url).expect("secret");
    let endpoints = folder.join("endpoints.toml");
    std::fs::write(
        &endpoints,
        format!(
            "[kafka]\nbootstrap-servers = [\"{bootstrap}\"]\n[database]\nurl = \
             \"secret://file{}\"\n",
            secret.display()
        ),
    )
    .expect("endpoints");
    let messaging = root()
        .join("config/messaging")
        .canonicalize()
        .expect("config");
    let mut text =
        std::fs::read_to_string(root().join("config/profiles").join(checked_in)).expect("profile");
    // The window card's lease covers a window's enqueue budget as well.
    let (lease, short) = if text.contains("[app.messaging.outbox.window]") {
        text = text.replace("enqueue-budget = \"10s\"", "enqueue-budget = \"2s\"");
        ("claim-lease = \"95s\"", "claim-lease = \"17s\"")
    } else {
        ("claim-lease = \"90s\"", "claim-lease = \"13s\"")
    };
    for (from, to) in [
        (
            "../../target/services/endpoints.toml",
            endpoints.display().to_string(),
        ),
        ("../messaging/", format!("{}/", messaging.display())),
        ("portfolio.domain-events.v1", topic.to_owned()),
        (lease, short.to_owned()),
        (
            "delivery-timeout = \"60s\"",
            "delivery-timeout = \"4s\"".to_owned(),
        ),
        (
            "request-timeout = \"35s\"",
            "request-timeout = \"1s\"".to_owned(),
        ),
        (
            "max-block-timeout = \"5s\"",
            "max-block-timeout = \"1s\"".to_owned(),
        ),
        (
            "application-attempt-budget = \"68s\"",
            "application-attempt-budget = \"8s\"".to_owned(),
        ),
    ] {
        assert!(text.contains(from), "{from} is not in the profile");
        text = text.replace(from, &to);
    }
    let profile = folder.join("profile.toml");
    std::fs::write(&profile, text).expect("profile");
    profile
}
