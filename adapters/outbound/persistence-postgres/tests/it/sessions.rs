//! Sessions whose defaults are not those of a fresh server.
//!
//! Invariant: what the protocol relies on is stated by each transaction, so no default changes a
//! result.

use crate::harness::{PostgresHarness, policy};
use crate::roles::govern;
use crate::sample::{acknowledged, append, claimed, event, event_id, nothing, request};
use crate::wait::Wait;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{
    AppendError, OutboxAppendPort as _, OutboxDeliveryPort as _, OutboxQueryPort as _,
    RecordOutcome, TransactionError, TransactionPort as _, TransactionResourcePort as _,
};
use domain_core::delivery::DeliveryStateName;
use outbound_persistence_postgres::{PoolSettings, PostgresStore, WriteIsolation};
use sqlx::Executor as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use std::time::Duration;

/// One event from append to DELIVERY_RECORDED, with every instant checked against the database's
/// own.
async fn one_life(h: &PostgresHarness, store: &PostgresStore) {
    let before = h.database_now().await;
    append(store, &event("e1", "a", 1)).await;
    let claim = claimed(store, &request(1)).await;
    let after = h.database_now().await;
    assert!((before..=after).contains(&claim.event.created_at));
    let lease = request(1).lease;
    assert!((before.plus(lease)..=after.plus(lease)).contains(&claim.claim_until));
    assert_eq!(
        claim.event.identities.occurred_at,
        event("e1", "a", 1).identities().occurred_at
    );
    nothing(store, &request(2)).await;
    let recorded = store
        .deliveries()
        .record_outcome(&acknowledged(&claim))
        .await;
    assert!(matches!(recorded, Ok(RecordOutcome::Recorded(_))));
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::DeliveryRecorded);
    let counts = store.query().counts().await.expect("counts");
    assert_eq!(counts.events, 1);
}

/// Serializable and read-only by default, generic plans, other output formats.
#[tokio::test]
async fn a_life_under_contrary_defaults() {
    let h = PostgresHarness::fresh().await;
    let store = h
        .place
        .bare_store(&[
            "default_transaction_isolation=serializable",
            "default_transaction_read_only=on",
            "plan_cache_mode=force_generic_plan",
            "bytea_output=escape",
            "IntervalStyle=iso_8601",
        ])
        .await;
    one_life(&h, &store).await;
    govern(&store).await;
}

/// The only session of a pool, as a pooler hands it from one transaction to the next: whichever way
/// a transaction ends, nothing of it is left for the next one.
#[tokio::test]
async fn a_transaction_leaves_nothing_in_its_session() {
    let h = PostgresHarness::fresh().await;
    let options: PgConnectOptions = h.place.url().parse().expect("URL");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_lazy_with(options.application_name(h.place.name()));
    let left = async || -> (String, String, String, i32) {
        // Two statements of one transaction have the same begin.
        let mut begins = Vec::new();
        for _ in 0..2 {
            let begin: String = sqlx::query_scalar("SELECT now()::text")
                .fetch_one(&pool)
                .await
                .expect("begin");
            begins.push(begin);
        }
        assert_ne!(begins[0], begins[1], "a transaction is open");
        sqlx::query_as(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), \
             current_setting('transaction_isolation'), pg_backend_pid()",
        )
        .fetch_one(&pool)
        .await
        .expect("settings")
    };
    let before = left().await;
    let store = PostgresStore::from_pool(pool.clone(), &h.place.settings()).expect("settings");
    let serializable = store.transactions_at(WriteIsolation::Serializable);
    for (number, append_last) in (1..).zip([false, true]) {
        let (outbox, sealed) = (
            store.outbox(policy()),
            event(&format!("e{number}"), "a", number),
        );
        serializable
            .in_write(move |tx| {
                Box::pin(async move {
                    if append_last {
                        outbox.append(tx, &sealed).await?;
                    } else {
                        PostgresHarness::insert_business_row(tx, "row")
                            .await
                            .expect("a business row");
                    }
                    Ok::<_, AppendError>(())
                })
            })
            .await
            .expect("committed");
        assert_eq!(left().await, before);
        let swallowed = serializable
            .in_write(|tx| {
                Box::pin(async move {
                    drop(tx.as_mut().execute("SELECT 1 / 0").await);
                    Ok::<_, AppendError>(())
                })
            })
            .await;
        assert!(
            matches!(swallowed, Err(TransactionError::Refused(_))),
            "{swallowed:?}"
        );
        assert_eq!(left().await, before);
    }
}

/// A session in another time zone, in a pool that a service brought along.
#[tokio::test]
async fn a_life_in_another_time_zone() {
    let h = PostgresHarness::fresh().await;
    let options: PgConnectOptions = h.place.url().parse().expect("URL");
    let pool = PgPoolOptions::new()
        .max_connections(3)
        .after_connect(|session, _| {
            Box::pin(async move {
                session.execute("SET TIME ZONE 'Asia/Seoul'").await?;
                Ok(())
            })
        })
        .connect_lazy_with(options.application_name(h.place.name()));
    let zone: String = sqlx::query_scalar("SHOW TimeZone")
        .fetch_one(&pool)
        .await
        .expect("zone");
    assert_eq!(zone, "Asia/Seoul");
    let store = PostgresStore::from_pool(pool, &h.place.settings()).expect("settings");
    one_life(&h, &store).await;
    let stored: String = sqlx::query_scalar("SELECT occurred_at::text FROM outbox_event")
        .fetch_one(&h.pool)
        .await
        .expect("stored");
    assert_eq!(stored, "2026-07-28 05:10:30.123");
    let ids = (
        store.transactions().resource_id().await.expect("id"),
        h.store.deliveries().resource_id().await.expect("id"),
    );
    assert_eq!(ids.0, ids.1);
}

/// A process that stops inside a transaction is thrown out of it by the server, and its caller
/// hears of no commit.
#[tokio::test]
async fn a_transaction_that_stands_still_is_ended() {
    let h = PostgresHarness::fresh().await;
    let settings = PoolSettings {
        idle_in_transaction_timeout: Duration::from_millis(50),
        ..h.place.settings()
    };
    let store = PostgresStore::connect(&h.place.url(), &settings)
        .await
        .expect("connected");
    for append_last in [false, true] {
        let outbox = store.outbox(policy());
        let sealed = event("e1", "a", 1);
        let pool = h.pool.clone();
        let result = store
            .transactions()
            .in_write(move |tx| {
                Box::pin(async move {
                    PostgresHarness::insert_business_row(tx, "lost")
                        .await
                        .expect("a business row");
                    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
                        .fetch_one(tx.as_mut())
                        .await
                        .expect("backend");
                    if append_last {
                        outbox.append(tx, &sealed).await.expect("appended");
                    }
                    let wait = Wait::new("the server to end the session");
                    while is_there(&pool, backend).await {
                        wait.again().await;
                    }
                    Ok::<_, std::fmt::Error>(())
                })
            })
            .await;
        assert!(result.is_err(), "{append_last}: {result:?}");
        assert_eq!(h.business_rows().await, Vec::<String>::new());
    }
    assert_eq!(h.store.query().counts().await.expect("counts").events, 0);
}

async fn is_there(pool: &PgPool, backend: i32) -> bool {
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE pid = $1")
        .bind(backend)
        .fetch_one(pool)
        .await
        .expect("activity");
    there > 0
}
