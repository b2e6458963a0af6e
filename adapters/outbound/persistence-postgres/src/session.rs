//! Begins and ends every transaction of this adapter.
//!
//! Invariant: each transaction states its own isolation level, access mode and time limits in the
//! statement that begins it, so nothing rests on the session's defaults and a connection pooler
//! may hand out any session.

use crate::errors::{Abort, CommitFault, DatabaseFault};
use crate::settings::PoolSettings;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Postgres, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a transaction is repeated after 40001, 40P01 or a row that moved.
const REPEATS: u32 = 10;

/// The longest that an operator's transaction waits.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// A business write, which a freeze holds back.
    Business(WriteIsolation),
    /// A batch of the relay's, whose statements look rows up by key, one after another. The
    /// planner may not think otherwise, whatever it believes of the tables' sizes.
    Batch,
    Read,
}

impl Access {
    /// A transaction of the relay.
    pub(crate) const RELAY: Self = Self::Write(WriteIsolation::ReadCommitted);

    /// The one message that begins a transaction.
    ///
    /// A business write asks for admission before its BEGIN: the statements of one message are one
    /// transaction, which BEGIN turns into a block of its own. If the admission is refused, the
    /// server has rolled back and the session is idle again, where a failure after BEGIN would
    /// leave it in an aborted block that the driver knows nothing of.
    fn opening(self, limits: &str) -> String {
        let clause = self.clause();
        match self {
            Self::Business(_) => format!(
                "SET TRANSACTION ISOLATION LEVEL {clause}; {limits}; \
                 SELECT countersign_admit_write(); BEGIN"
            ),
            Self::Batch => format!(
                "BEGIN ISOLATION LEVEL {clause}; {limits}; \
                 SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
                 SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off; \
                 SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off"
            ),
            Self::Write(_) | Self::Read => format!("BEGIN ISOLATION LEVEL {clause}; {limits}"),
        }
    }

    fn clause(self) -> &'static str {
        match self {
            Self::Batch
            | Self::Write(WriteIsolation::ReadCommitted)
            | Self::Business(WriteIsolation::ReadCommitted) => "READ COMMITTED READ WRITE",
            Self::Write(WriteIsolation::RepeatableRead)
            | Self::Business(WriteIsolation::RepeatableRead) => "REPEATABLE READ READ WRITE",
            Self::Write(WriteIsolation::Serializable)
            | Self::Business(WriteIsolation::Serializable) => "SERIALIZABLE READ WRITE",
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
        self.begin_by(access.opening(&self.limits)).await
    }

    /// Begins a transaction of the relay's kind whose first statement may take `wait`, waits for
    /// locks included; [`Self::limit`] it again after that statement.
    pub(crate) async fn begin_waiting(
        &self,
        wait: Duration,
    ) -> Result<Transaction<'static, Postgres>, DatabaseFault> {
        let opening = Access::RELAY.opening(&self.limits);
        // Zero would be no limit at all.
        let millis = wait
            .clamp(Duration::from_millis(1), LONGEST_WAIT)
            .as_millis();
        self.begin_by(format!(
            "{opening}; SET LOCAL statement_timeout = {millis}; SET LOCAL lock_timeout = {millis}"
        ))
        .await
    }

    /// Sets the pool's limits again.
    pub(crate) async fn limit(
        &self,
        tx: &mut Transaction<'static, Postgres>,
    ) -> Result<(), DatabaseFault> {
        tx.execute(AssertSqlSafe(self.limits.as_str())).await?;
        Ok(())
    }

    async fn begin_by(
        &self,
        message: String,
    ) -> Result<Transaction<'static, Postgres>, DatabaseFault> {
        let message: Arc<str> = message.into();
        let mut tries = self.pool.options().get_max_connections().saturating_add(1);
        loop {
            tries -= 1;
            let begun = self
                .pool
                .begin_with(AssertSqlSafe(Arc::clone(&message)))
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

    /// After a turn that was aborted: another one, or the operation's own error.
    pub(crate) fn after<E>(
        &mut self,
        abort: Abort<E>,
        failed: fn(DatabaseFault) -> E,
    ) -> Result<(), E> {
        match abort {
            Abort::Again(_) if self.again() => Ok(()),
            Abort::Again(fault) => Err(failed(fault)),
            Abort::Failed(error) => Err(error),
        }
    }
}

/// Commits.
pub(crate) async fn commit(tx: Transaction<'static, Postgres>) -> Result<(), CommitFault> {
    tx.commit().await.map_err(CommitFault::from)
}

/// Commits a transaction in which SQL that is not ours ran last, in one message: its first statement
/// fails with 25P02 if a swallowed error aborted the transaction, and then COMMIT is not reached.
///
/// The driver goes on believing in its transaction, and would warn the server by another COMMIT or
/// ROLLBACK of none; so an empty one follows, which the driver rolls back with the message that
/// gives the session back to its pool.
pub(crate) async fn prove_and_commit(
    mut tx: Transaction<'static, Postgres>,
) -> Result<(), CommitFault> {
    tx.execute(AssertSqlSafe(include_str!("sql/prove_and_commit.sql")))
        .await?;
    Ok(())
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
