//! The business side's transaction.
//!
//! Invariant: what a transaction wrote is there after a normal return without a rollback-only
//! mark, and in no other case.

use super::fixture::{event, try_append};
use super::harness::OutboxHarness;
use crate::Cause;
use crate::ports::{TransactionError, TransactionPort, WriteTransaction};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// The work of a case failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaseError {
    /// As the case wanted it.
    #[error("the case failed its own work")]
    OnPurpose,
    /// The business table refused.
    #[error("the business table refused")]
    Business(#[source] Cause),
}

/// Rows of work that returned normally are committed.
pub async fn work_that_returns_is_committed<H: OutboxHarness>(h: H) {
    let value = h
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "kept")
                    .await
                    .map_err(CaseError::Business)?;
                Ok::<_, CaseError>(7)
            })
        })
        .await
        .expect("committed");
    assert_eq!(value, 7);
    assert_eq!(h.business_rows().await, ["kept"]);
}

/// Rows of work that failed are gone, and the error is the work's own.
pub async fn work_that_fails_is_rolled_back<H: OutboxHarness>(h: H) {
    let result = h
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                Err::<(), _>(CaseError::OnPurpose)
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::Work(CaseError::OnPurpose))),
        "{result:?}"
    );
    assert_eq!(h.business_rows().await, Vec::<String>::new());
}

/// A mark outlives whatever the work returns.
pub async fn a_marked_transaction_cannot_commit<H: OutboxHarness>(h: H) {
    let result = h
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                tx.mark_rollback_only();
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::RollbackOnly)),
        "{result:?}"
    );
    assert_eq!(h.business_rows().await, Vec::<String>::new());
}

/// A caller that goes away in the middle leaves nothing, and the store goes on.
pub async fn a_dropped_transaction_leaves_nothing<H: OutboxHarness>(h: H) {
    let wrote = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&wrote);
    let transactions = h.transactions();
    {
        let mut work = pin!(transactions.in_write(move |tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                wrote.store(true, Ordering::SeqCst);
                std::future::pending::<Result<(), CaseError>>().await
            })
        }));
        poll_fn(|context| {
            assert!(work.as_mut().poll(context).is_pending(), "the work ended");
            if seen.load(Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
    try_append(&h, event("after", "a", 1).seal())
        .await
        .expect("the next transaction");
    assert_eq!(h.business_rows().await, Vec::<String>::new());
}
