//! The suite's database on SQLite: one file in a directory of its own.

use crate::harness::{Harness, store};
use application_core::ports::{
    AppendError, AppendReceipt, InboxDecision, InboxError, TransactionError, TxFuture,
};
use portfolio::store::{PortfolioDatabase, SqlitePortfolio};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

store!(
    SqliteConnection,
    "BEGIN IMMEDIATE",
    "INSERT INTO test_outbox (event_id, envelope) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    "INSERT INTO test_inbox (consumer, event_id, sha256) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    "SELECT sha256 FROM test_inbox WHERE consumer = ?1 AND event_id = ?2"
);

pub(crate) struct Transactions {
    file: PathBuf,
}

impl Transactions {
    async fn connect(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(&self.file)
            .create_if_missing(true)
            .connect()
            .await
            .expect("a connection")
    }
}

pub(crate) struct Sqlite {
    directory: tempfile::TempDir,
    transactions: Arc<Transactions>,
}

impl Harness for Sqlite {
    type Connection = SqliteConnection;
    type Tx = Tx;
    type Transactions = Transactions;
    type Portfolio = SqlitePortfolio;

    async fn open() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("portfolio.db");
        let harness = Self {
            directory,
            transactions: Arc::new(Transactions { file }),
        };
        let mut connection = harness.connection().await;
        // Twice, since a second start finds the tables there.
        for _ in 0..2 {
            SqlitePortfolio
                .create_tables(&mut connection)
                .await
                .expect("tables");
        }
        harness
            .run(
                "CREATE TABLE test_outbox (place INTEGER PRIMARY KEY AUTOINCREMENT, \
                 event_id TEXT NOT NULL UNIQUE, envelope BLOB NOT NULL)",
            )
            .await;
        harness
            .run(
                "CREATE TABLE test_inbox (consumer TEXT, event_id TEXT, sha256 TEXT, \
                 PRIMARY KEY (consumer, event_id))",
            )
            .await;
        harness
    }

    async fn close(self) {
        self.directory.close().expect("removed");
    }

    fn transactions(&self) -> Arc<Transactions> {
        Arc::clone(&self.transactions)
    }

    async fn connection(&self) -> SqliteConnection {
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
