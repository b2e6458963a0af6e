//! Several pools on one file, as several processes would have them.

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{ClaimOutcome, ClaimRequest, TransactionError, TransactionPort as _};
use domain_core::identity::ClaimToken;
use outbound_persistence_sqlite::{SqliteStore, SqliteStoreOptions, SqliteTransactions};
use std::sync::Arc;
use std::time::Duration;

async fn write(transactions: &SqliteTransactions, key: String) -> Result<(), sqlx::Error> {
    let result = transactions
        .in_write(move |tx| {
            Box::pin(async move {
                sqlx::query("INSERT INTO business VALUES (?1)")
                    .bind(key)
                    .execute(tx.as_mut())
                    .await
                    .map(|_| ())
            })
        })
        .await;
    match result {
        Ok(()) => Ok(()),
        Err(TransactionError::Work(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

/// Writers of several pools wait for each other instead of failing.
#[tokio::test]
async fn writers_of_several_pools_take_turns() {
    let harness = SqliteHarness::fresh().await;
    let mut writers = Vec::new();
    for pool in 0..4 {
        let options = SqliteStoreOptions::default();
        let store = SqliteStore::open(harness.path(), options)
            .await
            .expect("open");
        for writer in 0..3 {
            let transactions = store.transactions();
            writers.push(tokio::spawn(async move {
                for number in 0..10 {
                    let key = format!("{pool}-{writer}-{number}");
                    write(&transactions, key).await.expect("written");
                }
            }));
        }
    }
    for writer in writers {
        writer.await.expect("joined");
    }
    assert_eq!(harness.business_rows().await.len(), 120);
}

/// A lock that is not given up becomes an error in bounded time, and the writer works afterwards.
#[tokio::test]
async fn a_lock_that_stays_is_an_error_in_bounded_time() {
    let harness = SqliteHarness::open(SqliteStoreOptions {
        busy_timeout: Duration::from_millis(20),
        ..SqliteStoreOptions::default()
    })
    .await;
    let mut holder = harness.connect().await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut holder)
        .await
        .expect("lock");
    let began = std::time::Instant::now();
    let refused = harness
        .transactions()
        .in_write(|_| Box::pin(async { Ok::<_, sqlx::Error>(()) }))
        .await;
    assert!(
        matches!(refused, Err(TransactionError::Begin(_))),
        "{refused:?}"
    );
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(60), "{waited:?}");
    sqlx::query("ROLLBACK")
        .execute(&mut holder)
        .await
        .expect("unlock");
    write(&harness.transactions(), "after".to_owned())
        .await
        .expect("written");
    assert_eq!(harness.business_rows().await, ["after"]);
}

/// An idle claim does not ask for the write lock.
#[tokio::test]
async fn an_idle_claim_waits_for_no_writer() {
    let harness = SqliteHarness::open(SqliteStoreOptions {
        busy_timeout: Duration::from_millis(20),
        ..SqliteStoreOptions::default()
    })
    .await;
    let mut holder = harness.connect().await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut holder)
        .await
        .expect("lock");
    let request = ClaimRequest {
        owner: "worker".parse().expect("worker id"),
        token: ClaimToken::from_random([7; 16]),
        attempt_id: "attempt".parse().expect("attempt id"),
        producer_generation: "producer".parse().expect("generation"),
        lease: Duration::from_secs(1),
        attempt_budget: Duration::from_millis(1),
        maximum_attempts: 1,
        known: Arc::from([]),
    };
    let claimed = harness.deliveries().claim_next(&request).await;
    assert!(matches!(claimed, Ok(ClaimOutcome::Nothing)), "{claimed:?}");
}
