//! A database, a topic and a compiled profile of a measurement's own.
//!
//! Invariant: the profile is the checked-in one but for endpoints and topic, so what is measured is
//! what `serve` runs.

use app_bootstrap::compose::{Compiled, Store, contracts};
use app_bootstrap::config::{self, ExpectedState};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Card {
    PerRecord,
    Window,
}

pub(crate) struct Scene {
    pub(crate) compiled: Compiled,
    pub(crate) store: Store,
    pub(crate) topic: String,
    url: String,
    server: String,
    database: String,
    _folder: tempfile::TempDir,
}

/// Where Kafka is.
pub(crate) fn bootstrap() -> String {
    environment("COUNTERSIGN_TEST_KAFKA_BOOTSTRAP")
}

fn environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run this by `cargo xtask bench outbox`"))
}

impl Scene {
    /// `number` only tells scenes of one moment apart.
    pub(crate) async fn create(card: Card, number: u64) -> Self {
        let server = environment("COUNTERSIGN_TEST_POSTGRES_URL");
        let nanos = UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
        let name = format!("bench_{}_{number}_{nanos}", std::process::id());
        let topic = format!("portfolio.{}", name.replace('_', "-"));
        let mut connection = PgConnection::connect(&server).await.expect("PostgreSQL");
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .expect("a database");
        create_topic(&topic).await;
        let url = match server.rsplit_once('/') {
            Some((host, _)) => format!("{host}/{name}"),
            None => panic!("the server's URL has no database"),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = match card {
            Card::PerRecord => "local-kafka.toml",
            Card::Window => "local-kafka-window.toml",
        };
        let profile = write_profile(file, folder.path(), &topic, &url);
        let ExpectedState::Active(active) = config::load(&profile).expect("the profile").state
        else {
            panic!("the profile is active");
        };
        let compiled = contracts::compile_with(&active, &portfolio::contracts::contributions())
            .expect("the contracts");
        let store = Store::open(&compiled).await.expect("the store");
        Self {
            compiled,
            store,
            topic,
            url,
            server,
            database: name,
            _folder: folder,
        }
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("PostgreSQL")
    }

    pub(crate) async fn remove(self) {
        self.store.close().await;
        let mut connection = PgConnection::connect(&self.server)
            .await
            .expect("PostgreSQL");
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.database);
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .expect("dropped");
        admin()
            .delete_topics(&[&self.topic], &AdminOptions::new())
            .await
            .expect("deleted");
    }
}

fn admin() -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .create()
        .expect("an admin client")
}

pub(crate) async fn create_topic(topic: &str) {
    let limit = Some(Duration::from_secs(20));
    let options = AdminOptions::new()
        .request_timeout(limit)
        .operation_timeout(limit);
    let new = NewTopic::new(topic, 3, TopicReplication::Fixed(1)).set("retention.ms", "-1");
    let results = admin()
        .create_topics([&new], &options)
        .await
        .expect("asked");
    assert_eq!(results, [Ok(topic.to_owned())]);
}

fn write_profile(file: &str, folder: &Path, topic: &str, url: &str) -> std::path::PathBuf {
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
    let text = std::fs::read_to_string(root.join("config/profiles").join(file))
        .expect("a profile")
        .replace(
            "../../target/services/endpoints.toml",
            &endpoints.display().to_string(),
        )
        .replace("../messaging/", &format!("{}/", messaging.display()))
        .replace("portfolio.domain-events.v1", topic)
        .replace("maximum-connections = 10", "maximum-connections = 80");
    let profile = folder.join("profile.toml");
    std::fs::write(&profile, text).expect("the profile");
    profile
}
