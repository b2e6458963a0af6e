//! Business SQL that meddles with the transaction it was given.
//!
//! Each case would leave a business row without its event if the connection let it commit.

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{TransactionError, TransactionPort as _};
use outbound_persistence_sqlite::SqliteWriteTransaction;

async fn execute(tx: &mut SqliteWriteTransaction, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(sql).execute(tx.as_mut()).await.map(|_| ())
}

/// The store works as before, and nothing of the case is there.
async fn unharmed(harness: &SqliteHarness) {
    assert_eq!(harness.business_rows().await, Vec::<String>::new());
    let next = harness
        .transactions()
        .in_write(|tx| Box::pin(execute(tx, "INSERT INTO business VALUES ('next')")))
        .await;
    next.expect("the next transaction");
    assert_eq!(harness.business_rows().await, ["next"]);
}

#[tokio::test]
async fn a_commit_of_the_callers_own_is_refused() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                execute(tx, "INSERT INTO business VALUES ('lost')").await?;
                execute(tx, "COMMIT").await
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::Work(_))),
        "{result:?}"
    );
    unharmed(&harness).await;
}

#[tokio::test]
async fn a_swallowed_commit_of_the_callers_own_commits_nothing() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                execute(tx, "INSERT INTO business VALUES ('lost')").await?;
                assert!(execute(tx, "COMMIT").await.is_err());
                // The transaction is gone; this would commit by itself.
                assert!(
                    execute(tx, "INSERT INTO business VALUES ('alone')")
                        .await
                        .is_err()
                );
                Ok::<_, sqlx::Error>(())
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::RollbackOnly)),
        "{result:?}"
    );
    unharmed(&harness).await;
}

#[tokio::test]
async fn a_transaction_begun_again_by_the_caller_commits_nothing() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                execute(tx, "INSERT INTO business VALUES ('lost')").await?;
                execute(tx, "ROLLBACK").await?;
                execute(tx, "BEGIN").await?;
                execute(tx, "INSERT INTO business VALUES ('alone')").await
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::RollbackOnly)),
        "{result:?}"
    );
    unharmed(&harness).await;
}

/// `ON CONFLICT ROLLBACK` ends the transaction inside a statement; a swallowed error must not
/// let the rest commit alone.
#[tokio::test]
async fn a_statement_that_rolls_back_by_itself_ends_the_transaction() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                execute(tx, "INSERT INTO business VALUES ('lost')").await?;
                let clash = execute(tx, "INSERT OR ROLLBACK INTO business VALUES ('lost')").await;
                assert!(clash.is_err());
                assert!(
                    execute(tx, "INSERT INTO business VALUES ('alone')")
                        .await
                        .is_err()
                );
                Ok::<_, sqlx::Error>(())
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::RollbackOnly)),
        "{result:?}"
    );
    unharmed(&harness).await;
}

/// A savepoint of the caller's own is theirs to roll back.
#[tokio::test]
async fn a_savepoint_may_be_rolled_back() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                execute(tx, "INSERT INTO business VALUES ('kept')").await?;
                execute(tx, "SAVEPOINT s").await?;
                execute(tx, "INSERT INTO business VALUES ('undone')").await?;
                execute(tx, "ROLLBACK TO s").await?;
                execute(tx, "RELEASE s").await
            })
        })
        .await;
    result.expect("committed");
    assert_eq!(harness.business_rows().await, ["kept"]);
}

/// A deferred foreign key is judged at the commit.
#[tokio::test]
async fn a_refused_commit_commits_nothing() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                execute(tx, "CREATE TABLE parent (id INTEGER PRIMARY KEY)").await?;
                execute(
                    tx,
                    "CREATE TABLE child (id INTEGER REFERENCES parent (id)
                     DEFERRABLE INITIALLY DEFERRED)",
                )
                .await?;
                execute(tx, "INSERT INTO business VALUES ('lost')").await?;
                execute(tx, "INSERT INTO child VALUES (1)").await
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::Refused(_))),
        "{result:?}"
    );
    unharmed(&harness).await;
}

/// Connection settings of the caller's own do not outlive it into durability or references.
#[tokio::test]
async fn settings_cannot_be_weakened_within_a_transaction() {
    let harness = SqliteHarness::fresh().await;
    let settings = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                // SQLite ignores the first and refuses the second inside a transaction.
                execute(tx, "PRAGMA foreign_keys = OFF").await?;
                assert!(execute(tx, "PRAGMA synchronous = OFF").await.is_err());
                sqlx::query_as::<_, (i64, i64)>(
                    "SELECT foreign_keys, synchronous FROM pragma_foreign_keys, pragma_synchronous",
                )
                .fetch_one(tx.as_mut())
                .await
            })
        })
        .await;
    assert_eq!(settings.expect("settings"), (1, 2));
}
