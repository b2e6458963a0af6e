//! The one write connection and its transactions.
//!
//! Invariant: a transaction on this connection commits through [`SqliteWriteTransaction::commit`]
//! or not at all. SQL of the caller that says `COMMIT`, and statements that run on after SQLite
//! rolled the transaction back by itself, are refused by the connection's commit hook, so no
//! business row ever commits without its event.

use crate::errors::{CommitError, Failure, classify};
use application_core::ports::WriteTransaction;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Connection as _, Sqlite, SqliteConnection, SqlitePool, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often `BEGIN IMMEDIATE` is tried; each try waits for the busy timeout.
const BEGIN_TRIES: u32 = 3;

/// What the write connection's hooks and its transaction tell each other.
#[derive(Debug, Default)]
struct CommitGate {
    open: AtomicBool,
    rolled_back: AtomicBool,
}

/// Begins write transactions, one at a time.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pool: SqlitePool,
    gate: Arc<CommitGate>,
}

/// A write transaction under way. There is no public constructor: it exists only inside
/// [`SqliteTransactions`](crate::SqliteTransactions). The caller's business SQL runs on
/// [`AsMut<SqliteConnection>`].
#[derive(Debug)]
pub struct SqliteWriteTransaction {
    inner: Transaction<'static, Sqlite>,
    gate: Arc<CommitGate>,
    rollback_only: bool,
}

impl Writer {
    /// Prepares the connection; it is opened when it is first needed.
    pub(crate) fn new(options: SqliteConnectOptions, wait: Duration) -> Self {
        let gate = Arc::new(CommitGate::default());
        let hooks = Arc::clone(&gate);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(wait)
            // The check on release is enough: nobody else holds this connection.
            .test_before_acquire(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .after_connect(move |connection, _| {
                let gate = Arc::clone(&hooks);
                Box::pin(async move { install(connection, &gate).await })
            })
            .after_release(|connection, _| {
                Box::pin(async move {
                    // A rollback may still be on its way; the answer to the ping comes after it.
                    connection.ping().await?;
                    Ok(!connection.is_in_transaction())
                })
            })
            .connect_lazy_with(options);
        Self { pool, gate }
    }

    /// Takes the write lock.
    pub(crate) async fn begin(&self) -> Result<SqliteWriteTransaction, sqlx::Error> {
        let mut tries = 0;
        let inner = loop {
            tries += 1;
            match self.pool.begin_with("BEGIN IMMEDIATE").await {
                Ok(inner) => break inner,
                Err(error) if tries < BEGIN_TRIES && classify(&error) == Failure::Busy => {}
                Err(error) => return Err(error),
            }
        };
        self.gate.open.store(false, Ordering::SeqCst);
        self.gate.rolled_back.store(false, Ordering::SeqCst);
        Ok(SqliteWriteTransaction {
            inner,
            gate: Arc::clone(&self.gate),
            rollback_only: false,
        })
    }

    /// Takes the write lock, or gives up after `wait`: `None`.
    pub(crate) async fn begin_within(
        &self,
        wait: Duration,
    ) -> Result<Option<SqliteWriteTransaction>, sqlx::Error> {
        // A lock that comes after the wait is given back when the connection returns to the pool.
        let begun = tokio::time::timeout(wait, async {
            loop {
                match self.begin().await {
                    Err(sqlx::Error::PoolTimedOut) => {}
                    Err(error) if classify(&error) == Failure::Busy => {}
                    begun => return begun,
                }
            }
        });
        begun.await.map_or(Ok(None), |begun| begun.map(Some))
    }

    /// Closes the connection after its last transaction.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

async fn install(
    connection: &mut SqliteConnection,
    gate: &Arc<CommitGate>,
) -> Result<(), sqlx::Error> {
    let (commits, rollbacks) = (Arc::clone(gate), Arc::clone(gate));
    let mut handle = connection.lock_handle().await?;
    handle.set_commit_hook(move || commits.open.load(Ordering::SeqCst));
    handle.set_rollback_hook(move || rollbacks.rolled_back.store(true, Ordering::SeqCst));
    Ok(())
}

impl SqliteWriteTransaction {
    /// Whether a commit would be refused.
    pub(crate) fn is_doomed(&self) -> bool {
        self.rollback_only || self.gate.rolled_back.load(Ordering::SeqCst)
    }

    /// The connection, for this adapter's statements.
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.inner
    }

    /// Commits.
    pub(crate) async fn commit(self) -> Result<(), CommitError> {
        if self.gate.rolled_back.load(Ordering::SeqCst) {
            self.rollback().await;
            return Err(CommitError::AlreadyRolledBack);
        }
        self.gate.open.store(true, Ordering::SeqCst);
        let committed = self.inner.commit().await;
        self.gate.open.store(false, Ordering::SeqCst);
        committed.map_err(CommitError::of)
    }

    /// Rolls back. A rollback that fails closes the connection, which rolls back as well.
    pub(crate) async fn rollback(self) {
        let _ = self.inner.rollback().await;
    }
}

impl WriteTransaction for SqliteWriteTransaction {
    fn mark_rollback_only(&mut self) {
        self.rollback_only = true;
    }
}

impl AsMut<SqliteConnection> for SqliteWriteTransaction {
    fn as_mut(&mut self) -> &mut SqliteConnection {
        &mut self.inner
    }
}
