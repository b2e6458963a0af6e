//! The caller's own write transaction on one named resource.
//!
//! Invariant: a value of a [`WriteTransaction`] type exists only inside
//! [`TransactionPort::in_write`], so nothing that asks for one can run outside a transaction.

use crate::Cause;
use domain_core::authority::WriteAdmissionState;
use domain_core::identity::TransactionResourceId;
use std::future::Future;
use std::pin::Pin;

/// The future of work inside a transaction.
pub type TxFuture<'t, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 't>>;

/// A write transaction under way.
pub trait WriteTransaction: Send {
    /// From here on the transaction can only roll back, whatever its work returns. Anything that
    /// refuses to append calls this, so that a swallowed error cannot commit business rows alone.
    fn mark_rollback_only(&mut self);
}

/// Why work in a transaction has no result. In every case but `OutcomeUnknown` nothing was
/// committed.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError<E: std::error::Error + 'static> {
    /// The transaction could not begin.
    #[error("the write transaction could not begin")]
    Begin(#[source] Cause),
    /// Business writes are frozen, or being frozen; nothing was begun. Try again once they are not.
    #[error("business writes are {}; the transaction may be tried again", .0.as_str())]
    NotAdmitted(WriteAdmissionState),
    /// The work failed; everything it wrote is rolled back.
    #[error("the write transaction was rolled back")]
    Work(#[source] E),
    /// The work returned normally, but something in it had refused to go on.
    #[error("the write transaction was marked rollback-only and was rolled back")]
    RollbackOnly,
    /// The database refused the commit; nothing was committed.
    #[error("the write transaction was refused at commit")]
    Refused(#[source] Cause),
    /// The commit was sent and its answer was lost: it may or may not have happened.
    #[error("the outcome of the commit is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// Runs work in one write transaction of one named resource.
pub trait TransactionPort: Send + Sync {
    /// The transaction that the work is given.
    type Tx: WriteTransaction;

    /// Begins under the write admission, unless this port was made for writes that a freeze does
    /// not stop, runs the work, and commits if the work returned normally and nothing marked the
    /// transaction rollback-only. The work is not repeated.
    ///
    /// # Errors
    /// [`TransactionError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    fn in_write<'a, T, E, W>(
        &'a self,
        work: W,
    ) -> impl Future<Output = Result<T, TransactionError<E>>> + Send + 'a
    where
        T: Send + 'a,
        E: std::error::Error + Send + 'static,
        W: for<'t> FnOnce(&'t mut Self::Tx) -> TxFuture<'t, T, E> + Send + 'a;
}

/// Why the store's identity could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// The store cannot be reached.
    #[error("the store's resource id cannot be read")]
    Unavailable(#[source] Cause),
    /// The store has no usable identity: not migrated, or tampered with.
    #[error("the store has no valid resource id: {0}")]
    Missing(String),
}

/// Tells which store a pool really leads to (requirement 004 §12.4).
#[async_trait::async_trait]
pub trait TransactionResourcePort: Send + Sync {
    /// Reads the random id that the store's first migration wrote.
    ///
    /// # Errors
    /// [`ResourceError`].
    async fn resource_id(&self) -> Result<TransactionResourceId, ResourceError>;
}
