//! The business side's write transactions.
//!
//! Invariant: the work runs once; it commits if it returned normally, nothing marked it
//! rollback-only and SQLite did not roll it back by itself.

use crate::authority::admission;
use crate::errors::CommitError;
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::ports::{TransactionError, TransactionPort, TxFuture};
use domain_core::authority::WriteAdmissionState;

/// Runs work in write transactions of one store, one at a time.
#[derive(Debug, Clone)]
pub struct SqliteTransactions {
    pub(crate) writer: Writer,
    /// Whether a freeze of business writes holds these back.
    pub(crate) gated: bool,
}

impl TransactionPort for SqliteTransactions {
    type Tx = SqliteWriteTransaction;

    async fn in_write<'a, T, E, W>(&'a self, work: W) -> Result<T, TransactionError<E>>
    where
        T: Send + 'a,
        E: std::error::Error + Send + 'static,
        W: for<'t> FnOnce(&'t mut Self::Tx) -> TxFuture<'t, T, E> + Send + 'a,
    {
        let mut tx = self
            .writer
            .begin()
            .await
            .map_err(|error| TransactionError::Begin(Box::new(error)))?;
        if self.gated
            && let Some(refused) = refusal(&mut tx).await
        {
            tx.rollback().await;
            return Err(refused);
        }
        let value = match work(&mut tx).await {
            Ok(value) => value,
            Err(error) => {
                tx.rollback().await;
                return Err(TransactionError::Work(error));
            }
        };
        if tx.is_doomed() {
            tx.rollback().await;
            return Err(TransactionError::RollbackOnly);
        }
        match tx.commit().await {
            Ok(()) => Ok(value),
            Err(CommitError::Unknown(error)) => {
                Err(TransactionError::OutcomeUnknown(Box::new(error)))
            }
            Err(error) => Err(TransactionError::Refused(Box::new(error))),
        }
    }
}

/// Why a business write is not admitted, under the write lock.
async fn refusal<E: std::error::Error + 'static>(
    tx: &mut SqliteWriteTransaction,
) -> Option<TransactionError<E>> {
    match admission(tx.connection()).await {
        Ok(admission) if admission.state == WriteAdmissionState::Open => None,
        Ok(admission) => Some(TransactionError::NotAdmitted(admission.state)),
        Err(error) => Some(TransactionError::Begin(Box::new(error))),
    }
}
