//! The caller's own write transaction.
//!
//! Invariant: a [`PostgresWriteTransaction`] has no public constructor and lives only inside
//! [`TransactionPort::in_write`]; COMMIT is sent only when nothing asked for a rollback and the
//! session is known to be in a transaction that no swallowed error aborted. PostgreSQL answers
//! COMMIT in an aborted transaction with a silent ROLLBACK.

use crate::errors::CommitFault;
use crate::session::{self, Access, Sessions};
use application_core::ports::{TransactionError, TransactionPort, TxFuture, WriteTransaction};
use sqlx::{PgConnection, Postgres, Transaction};
use std::sync::Arc;

/// One write transaction under way.
///
/// [`AsMut`] gives the connection for the caller's business SQL. Savepoints through the driver's
/// nested transactions are fine; ending the transaction by hand is not.
pub struct PostgresWriteTransaction {
    tx: Transaction<'static, Postgres>,
    rollback_only: bool,
    /// Whether SQL that is not ours ran since a statement of ours last succeeded.
    unproven: bool,
}

impl PostgresWriteTransaction {
    /// The connection for a statement of this adapter; call [`Self::proven`] when it succeeded.
    pub(crate) fn own(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// A statement of ours just succeeded, so the transaction is not aborted.
    pub(crate) fn proven(&mut self) {
        self.unproven = false;
    }
}

impl WriteTransaction for PostgresWriteTransaction {
    fn mark_rollback_only(&mut self) {
        self.rollback_only = true;
    }
}

impl AsMut<PgConnection> for PostgresWriteTransaction {
    fn as_mut(&mut self) -> &mut PgConnection {
        self.unproven = true;
        &mut self.tx
    }
}

impl std::fmt::Debug for PostgresWriteTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresWriteTransaction")
            .field("rollback_only", &self.rollback_only)
            .finish_non_exhaustive()
    }
}

/// Runs write transactions at one isolation level.
#[derive(Clone)]
pub struct PostgresTransactions {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) access: Access,
}

impl TransactionPort for PostgresTransactions {
    type Tx = PostgresWriteTransaction;

    async fn in_write<'a, T, E, W>(&'a self, work: W) -> Result<T, TransactionError<E>>
    where
        T: Send + 'a,
        E: std::error::Error + Send + 'static,
        W: for<'t> FnOnce(&'t mut Self::Tx) -> TxFuture<'t, T, E> + Send + 'a,
    {
        let tx = self.sessions.begin(self.access).await.map_err(|fault| {
            match fault.refused_admission() {
                Some(state) => TransactionError::NotAdmitted(state),
                None => TransactionError::Begin(Box::new(fault)),
            }
        })?;
        let mut tx = PostgresWriteTransaction {
            tx,
            rollback_only: false,
            unproven: false,
        };
        let value = match work(&mut tx).await {
            Ok(value) => value,
            Err(error) => {
                session::roll_back(tx.tx).await;
                return Err(TransactionError::Work(error));
            }
        };
        if tx.rollback_only {
            session::roll_back(tx.tx).await;
            return Err(TransactionError::RollbackOnly);
        }
        let ended = if tx.unproven {
            session::prove_and_commit(tx.tx).await
        } else {
            session::commit(tx.tx).await
        };
        match ended {
            Ok(()) => Ok(value),
            Err(CommitFault::Refused(fault)) => Err(TransactionError::Refused(Box::new(fault))),
            Err(CommitFault::Unknown(fault)) => {
                Err(TransactionError::OutcomeUnknown(Box::new(fault)))
            }
        }
    }
}
