//! One store: the file, its one write connection and its read connections.
//!
//! Invariant: every adapter that a store hands out works on the same file, through the same write
//! connection.

use crate::append::SqliteOutbox;
use crate::control::SqliteControl;
use crate::deliveries::{Places, SqliteDeliveries};
use crate::inbox::SqliteInbox;
use crate::open::{OpenError, SqliteStoreOptions, connect_options, prepare, read_options};
use crate::query::SqliteQuery;
use crate::retention::Reaped;
use crate::transaction::SqliteTransactions;
use crate::writer::Writer;
use application_core::ports::AppendPolicy;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use std::path::Path;
use std::sync::Arc;

/// An open store. Clones share its connections, and where its scans stand.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: Writer,
    reads: SqlitePool,
    places: Arc<Places>,
    reaped: Arc<Reaped>,
}

impl SqliteStore {
    /// Opens the file, creating it or bringing its schema up to date.
    ///
    /// # Errors
    /// [`OpenError`], before anything but a regular file was touched.
    pub async fn open(
        path: impl AsRef<Path>,
        options: SqliteStoreOptions,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        prepare(path, &options).await?;
        let connect = connect_options(path, &options);
        let reads = SqlitePoolOptions::new()
            .max_connections(options.read_connections.max(1))
            .connect_lazy_with(read_options(connect.clone()));
        Ok(Self {
            writer: Writer::new(connect, options.write_wait),
            reads,
            places: Arc::default(),
            reaped: Arc::default(),
        })
    }

    /// The business side's write transactions.
    pub fn transactions(&self) -> SqliteTransactions {
        SqliteTransactions {
            writer: self.writer.clone(),
            gated: true,
        }
    }

    /// Write transactions that a freeze of business writes does not hold back: for the sentinel.
    pub fn ungated_transactions(&self) -> SqliteTransactions {
        SqliteTransactions {
            writer: self.writer.clone(),
            gated: false,
        }
    }

    /// What operators and upkeep do: dispositions, fences, authority, retention, capacity.
    pub fn control(&self) -> SqliteControl {
        SqliteControl {
            writer: self.writer.clone(),
            reads: self.reads.clone(),
            reaped: Arc::clone(&self.reaped),
        }
    }

    /// Appends under a policy.
    pub fn outbox(&self, policy: AppendPolicy) -> SqliteOutbox {
        SqliteOutbox {
            writer: self.writer.clone(),
            policy,
        }
    }

    /// The relay's transactions.
    pub fn deliveries(&self) -> SqliteDeliveries {
        SqliteDeliveries {
            writer: self.writer.clone(),
            reads: self.reads.clone(),
            places: Arc::clone(&self.places),
        }
    }

    /// The relay's transactions, many records at once.
    pub fn windows(&self) -> SqliteDeliveries {
        self.deliveries()
    }

    /// Reads for people and summaries.
    pub fn query(&self) -> SqliteQuery {
        SqliteQuery {
            reads: self.reads.clone(),
        }
    }

    /// The inbox.
    pub fn inbox(&self) -> SqliteInbox {
        SqliteInbox {
            writer: self.writer.clone(),
        }
    }

    /// Connections for the business side's reads. They cannot write.
    pub fn read_pool(&self) -> &SqlitePool {
        &self.reads
    }

    /// Waits for transactions under way and closes every connection.
    pub async fn close(&self) {
        self.writer.close().await;
        self.reads.close().await;
    }
}
