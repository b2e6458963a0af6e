//! One schema a test, made empty and dropped at the end, in the database that the variable names.
//!
//! Invariant: a test touches no other schema, and one whose test panicked is dropped too. Sessions
//! carry the schema's name as their application name, so that exactly they are ended with it.

use outbound_persistence_postgres::{PoolSettings, PostgresStore};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const VARIABLE: &str = "COUNTERSIGN_TEST_POSTGRES_URL";

/// The server's URL, without parameters.
fn server_url() -> String {
    let url = std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} is not set: these tests need a PostgreSQL server and never skip")
    });
    url.split('?').next().expect("a first part").to_owned()
}

/// The server's options.
pub(crate) fn server() -> PgConnectOptions {
    server_url()
        .parse::<PgConnectOptions>()
        .unwrap_or_else(|_| panic!("{VARIABLE} is not a PostgreSQL URL"))
        .disable_statement_logging()
}

/// A name that no other test and no other run has.
pub(crate) fn unique_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    #[expect(
        clippy::disallowed_methods,
        reason = "part of a name that no other run may have"
    )]
    let now = SystemTime::now();
    let nanos = now.duration_since(UNIX_EPOCH).expect("clock").as_nanos();
    format!("cs_{}_{nanos:x}_{number}", std::process::id())
}

/// The URL of sessions in a schema. Commits are not synced: no test here takes the power away.
fn url(schema: &str) -> String {
    format!(
        "{}?options=-c%20search_path%3D{schema}%20-c%20synchronous_commit%3Doff",
        server_url()
    )
}

/// Options of plain sessions in a schema.
fn options(schema: &str) -> PgConnectOptions {
    url(schema)
        .parse::<PgConnectOptions>()
        .expect("the URL")
        .application_name(schema)
        .disable_statement_logging()
}

/// A schema of its own. Logging in costs more than most cases do, so sessions are few.
pub(crate) struct Place {
    name: String,
    pool: PgPool,
}

impl Place {
    /// Creates an empty one.
    pub(crate) async fn create() -> Self {
        let name = unique_name();
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect_lazy_with(options(&name));
        pool.execute(AssertSqlSafe(format!("CREATE SCHEMA {name}")))
            .await
            .expect("a schema is created");
        Self { name, pool }
    }

    /// The connection URL, as a service is configured with, with further server settings.
    pub(crate) fn url_with(&self, settings: &[&str]) -> String {
        let mut url = url(&self.name);
        for setting in settings {
            url.push_str("%20-c%20");
            url.push_str(&setting.replace('=', "%3D"));
        }
        url
    }

    /// The plain connection URL.
    pub(crate) fn url(&self) -> String {
        self.url_with(&[])
    }

    /// Settings with limits that a test can meet.
    pub(crate) fn settings(&self) -> PoolSettings {
        PoolSettings {
            application_name: self.name.clone(),
            maximum_connections: 10,
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(10),
            idle_in_transaction_timeout: Duration::from_secs(30),
        }
    }

    /// A session past the store.
    pub(crate) async fn session(&self) -> PgConnection {
        options(&self.name).connect().await.expect("a session")
    }

    /// A pool past the store.
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A store here, not migrated, whose sessions have further server settings.
    pub(crate) async fn bare_store(&self, settings: &[&str]) -> PostgresStore {
        PostgresStore::connect(&self.url_with(settings), &self.settings())
            .await
            .expect("connected")
    }

    /// A store here, migrated.
    pub(crate) async fn store(&self) -> PostgresStore {
        let store = self.bare_store(&[]).await;
        store.migrate().await.expect("migrated");
        store
    }

    /// The schema's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Place {
    /// From a thread of its own, since a test's runtime cannot wait here.
    fn drop(&mut self) {
        let name = self.name.clone();
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut server = server().connect().await?;
                sqlx::query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE application_name = $1",
                )
                .bind(&name)
                .execute(&mut server)
                .await?;
                server
                    .execute(AssertSqlSafe(format!(
                        "SET client_min_messages = error; SET synchronous_commit = off; \
                         DROP SCHEMA {name} CASCADE"
                    )))
                    .await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        })
        .join();
        if !matches!(dropped, Ok(Ok(()))) {
            eprintln!("schema {} was not dropped", self.name);
        }
    }
}
