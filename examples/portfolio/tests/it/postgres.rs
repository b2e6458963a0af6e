//! The suite's database on PostgreSQL: one schema of its own in the database that
//! `COUNTERSIGN_TEST_POSTGRES_URL` names.

use crate::harness::{Harness, store};
use application_core::ports::{
    AppendError, AppendReceipt, InboxDecision, InboxError, TransactionError, TxFuture,
};
use portfolio::store::{PortfolioDatabase, PostgresPortfolio};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const URL: &str = "COUNTERSIGN_TEST_POSTGRES_URL";

store!(
    PgConnection,
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "INSERT INTO test_outbox (event_id, envelope) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    "INSERT INTO test_inbox (consumer, event_id, sha256) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    "SELECT sha256 FROM test_inbox WHERE consumer = $1 AND event_id = $2"
);

pub(crate) struct Transactions {
    options: PgConnectOptions,
}

impl Transactions {
    async fn connect(&self) -> PgConnection {
        let connection = self.options.connect().await;
        connection.expect("PostgreSQL answers")
    }
}

pub(crate) struct Postgres {
    schema: String,
    server: PgConnectOptions,
    transactions: Arc<Transactions>,
}

impl Postgres {
    async fn on_server(&self, statement: String) {
        let mut connection = self.server.connect().await.expect("PostgreSQL answers");
        sqlx::query(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .expect("the schema's statement");
    }
}

impl Harness for Postgres {
    type Connection = PgConnection;
    type Tx = Tx;
    type Transactions = Transactions;
    type Portfolio = PostgresPortfolio;

    async fn open() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = std::env::var(URL)
            .unwrap_or_else(|_| panic!("{URL} is not set; this test needs a real PostgreSQL"));
        let server: PgConnectOptions = url.parse().expect("a PostgreSQL URL");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("portfolio_it_{}_{number}", std::process::id());
        let harness = Self {
            transactions: Arc::new(Transactions {
                options: server.clone().options([("search_path", &schema)]),
            }),
            schema,
            server,
        };
        let (name, again) = (&harness.schema, "DROP SCHEMA IF EXISTS");
        harness.on_server(format!("{again} {name} CASCADE")).await;
        harness.on_server(format!("CREATE SCHEMA {name}")).await;
        let mut connection = harness.connection().await;
        // Twice, since a second start finds the tables there.
        for _ in 0..2 {
            PostgresPortfolio
                .create_tables(&mut connection)
                .await
                .expect("tables");
        }
        harness
            .run(
                "CREATE TABLE test_outbox (place bigint GENERATED ALWAYS AS IDENTITY, \
                 event_id text NOT NULL UNIQUE, envelope bytea NOT NULL)",
            )
            .await;
        harness
            .run(
                "CREATE TABLE test_inbox (consumer text, event_id text, sha256 text, \
                 PRIMARY KEY (consumer, event_id))",
            )
            .await;
        harness
    }

    async fn close(self) {
        self.on_server(format!("DROP SCHEMA {} CASCADE", self.schema))
            .await;
    }

    fn transactions(&self) -> Arc<Transactions> {
        Arc::clone(&self.transactions)
    }

    async fn connection(&self) -> PgConnection {
        self.transactions.connect().await
    }

    async fn number(&self, statement: &'static str) -> i64 {
        let (number,) = sqlx::query_as(statement)
            .fetch_one(&mut self.connection().await)
            .await
            .expect(statement);
        number
    }

    async fn run(&self, statement: &'static str) {
        sqlx::query(statement)
            .execute(&mut self.connection().await)
            .await
            .expect(statement);
    }

    async fn envelopes(&self) -> Vec<Vec<u8>> {
        let rows: Vec<(Vec<u8>,)> =
            sqlx::query_as("SELECT envelope FROM test_outbox ORDER BY place")
                .fetch_all(&mut self.connection().await)
                .await
                .expect("rows");
        rows.into_iter().map(|(envelope,)| envelope).collect()
    }
}
