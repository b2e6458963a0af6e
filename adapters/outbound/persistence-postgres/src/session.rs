//! Begins and ends every transaction of this adapter.
//!
//! Invariant: each transaction states its own isolation level, access mode and time limits in the
//! statement that begins it, so nothing rests on the session's defaults and a connection pooler
//! may hand out any session.

use crate::errors::{CommitFault, DatabaseFault};
use crate::settings::PoolSettings;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a transaction is repeated after 40001, 40P01 or a row that moved.
const REPEATS: u32 = 10;

/// A connection idle for longer is tried before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// The isolation level of a caller's write transaction. The relay's own are READ COMMITTED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteIsolation {
    /// `READ COMMITTED`
    #[default]
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

/// What a transaction may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Write(WriteIsolation),
    Read,
}

impl Access {
    /// A transaction of the relay.
    pub(crate) const RELAY: Self = Self::Write(WriteIsolation::ReadCommitted);

    fn clause(self) -> &'static str {
        match self {
            Self::Write(WriteIsolation::ReadCommitted) => "READ COMMITTED READ WRITE",
            Self::Write(WriteIsolation::RepeatableRead) => "REPEATABLE READ READ WRITE",
            Self::Write(WriteIsolation::Serializable) => "SERIALIZABLE READ WRITE",
            Self::Read => "READ COMMITTED READ ONLY",
        }
    }
}

/// A pool with the limits of its transactions.
pub(crate) struct Sessions {
    pool: PgPool,
    limits: String,
    repeated: AtomicU64,
}

impl Sessions {
    pub(crate) fn new(pool: PgPool, settings: &PoolSettings) -> Arc<Self> {
        let millis = |duration: Duration| duration.as_millis();
        let limits = format!(
            "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}",
            millis(settings.statement_timeout),
            millis(settings.lock_timeout),
            millis(settings.idle_in_transaction_timeout),
        );
        Arc::new(Self {
            pool,
            limits,
            repeated: AtomicU64::new(0),
        })
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Begins. A session that turns out to be dead is replaced: nothing was done in it yet.
    pub(crate) async fn begin(
        &self,
        access: Access,
    ) -> Result<Transaction<'static, Postgres>, DatabaseFault> {
        let statement: Arc<str> =
            format!("BEGIN ISOLATION LEVEL {}; {}", access.clause(), self.limits).into();
        let mut tries = self.pool.options().get_max_connections().saturating_add(1);
        loop {
            tries -= 1;
            let begun = self
                .pool
                .begin_with(AssertSqlSafe(Arc::clone(&statement)))
                .await
                .map_err(DatabaseFault::from);
            match begun {
                Err(fault) if tries > 0 && fault.is_dead_session() => {}
                result => return result,
            }
        }
    }

    /// A counted, bounded series of turns of one transaction.
    pub(crate) fn repeats(&self) -> Repeats<'_> {
        Repeats {
            counted: &self.repeated,
            left: REPEATS,
        }
    }

    /// Transactions repeated since the start.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }
}

/// What is left of a series of turns.
pub(crate) struct Repeats<'s> {
    counted: &'s AtomicU64,
    left: u32,
}

impl Repeats<'_> {
    /// Takes another turn, if one is left.
    pub(crate) fn again(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.counted.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Commits.
pub(crate) async fn commit(tx: Transaction<'static, Postgres>) -> Result<(), CommitFault> {
    tx.commit().await.map_err(CommitFault::from)
}

/// Rolls back. A failure is of no interest: a session that cannot say ROLLBACK has none of its
/// transaction's work either.
pub(crate) async fn roll_back(tx: Transaction<'static, Postgres>) {
    drop(tx.rollback().await);
}

/// The pool's options: sessions are tried after an idle time instead of at every use.
pub(crate) fn pool_options(settings: &PoolSettings) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(settings.maximum_connections)
        .acquire_timeout(settings.acquire_timeout)
        .test_before_acquire(false)
        .before_acquire(|session: &mut PgConnection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_IDLE {
                    session.ping().await?;
                }
                Ok(true)
            })
        })
}
