//! A backlog drained by the relay, publishing to Kafka.
//!
//! Invariant: the clock is the database's and runs from the first admitted attempt to the last recorded
//! delivery, so starting a process is not measured. What was recorded is counted in the database and,
//! for a whole backlog, again on the topic.

use crate::place::{self, Card, Database, Scene};
use crate::relay::Relay;
use sqlx::{PgConnection, Row as _};
use std::time::{Duration, Instant};

/// When a drain ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// When the whole backlog, so many events, is recorded.
    Events(u32),
    /// So long after the first record.
    Time(Duration),
}

/// What a drain took.
pub(crate) struct Drained {
    /// Events recorded.
    pub(crate) events: f64,
    /// Events a second.
    pub(crate) rate: f64,
    /// The relay's greatest resident memory.
    pub(crate) resident_mib: f64,
    /// Times that the log was synced.
    pub(crate) wal_syncs: f64,
    /// Bytes of log.
    pub(crate) wal_bytes: f64,
    /// Committed transactions.
    pub(crate) transactions: f64,
}

/// Drains a copy.
pub(crate) async fn measure(card: Card, filled: &Database, bound: Bound) -> Drained {
    let database = filled.copy().await;
    let drained = drain(card, &database, bound).await;
    database.remove().await;
    drained
}

/// Drains a copy while a transaction that began before keeps vacuum from removing anything.
pub(crate) async fn measure_held(card: Card, filled: &Database, bound: Bound) -> Drained {
    let database = filled.copy().await;
    let mut holder = database.connect().await;
    sqlx::raw_sql(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_publication_epoch",
    )
    .execute(&mut holder)
    .await
    .expect("held");
    let drained = drain(card, &database, bound).await;
    drop(holder);
    database.remove().await;
    drained
}

async fn drain(card: Card, database: &Database, bound: Bound) -> Drained {
    let scene = Scene::on(database, card).await;
    let mut watch = database.connect().await;
    sqlx::raw_sql("ANALYZE; CHECKPOINT")
        .execute(&mut watch)
        .await
        .expect("analyzed");
    let before = Counters::read(&mut watch).await;
    let mut relay = Relay::start(&scene);
    let mut first = None;
    let topic = &scene.topic;
    place::until("the backlog drained", Duration::from_millis(100), || {
        relay.check();
        let records = topic.records();
        if records > 0 {
            first.get_or_insert_with(Instant::now);
        }
        let done = match bound {
            Bound::Events(events) => records >= u64::from(events),
            Bound::Time(time) => first.is_some_and(|first| first.elapsed() >= time),
        };
        std::future::ready(done)
    })
    .await;
    if let Bound::Events(_) = bound {
        until_recorded(&mut watch).await;
    }
    let resident_mib = relay.resident_mib();
    let warned = relay.end();
    if !warned.is_empty() {
        println!(
            "{card:?} warned: {}",
            warned.lines().next().unwrap_or_default()
        );
    }
    let after = Counters::read(&mut watch).await;
    let row = sqlx::query(
        "SELECT (SELECT count(*) FROM outbox_delivery \
                  WHERE state = 'DELIVERY_RECORDED' AND event_id LIKE 'bench-%')::float8 AS events, \
                (extract(epoch FROM \
                    (SELECT max(delivery_recorded_at) FROM outbox_delivery) - \
                    (SELECT min(observed_at) FROM outbox_delivery_attempt_observation \
                      WHERE event_id LIKE 'bench-%')))::float8 AS seconds",
    )
    .fetch_one(&mut watch)
    .await
    .expect("counted");
    let (recorded, seconds): (f64, f64) = (row.get("events"), row.get("seconds"));
    drop(watch);
    scene.remove().await;
    Drained {
        events: recorded,
        rate: recorded / seconds,
        resident_mib,
        wal_syncs: after.wal_syncs - before.wal_syncs,
        wal_bytes: after.wal_bytes - before.wal_bytes,
        transactions: after.transactions - before.transactions,
    }
}

/// Waits until nothing of the database's backlog is open.
pub(crate) async fn until_recorded(watch: &mut PgConnection) {
    let watch = tokio::sync::Mutex::new(watch);
    place::until(
        "everything recorded",
        Duration::from_millis(50),
        async || {
            let open: bool = sqlx::query_scalar(
                "SELECT EXISTS (SELECT 1 FROM outbox_delivery WHERE blocks_scope)",
            )
            .fetch_one(&mut **watch.lock().await)
            .await
            .expect("asked");
            !open
        },
    )
    .await;
}

/// What the server counts. The log's figures are the whole server's, so nobody else may use it.
struct Counters {
    wal_syncs: f64,
    wal_bytes: f64,
    transactions: f64,
}

impl Counters {
    async fn read(watch: &mut PgConnection) -> Self {
        let row = sqlx::query(
            "SELECT wal_sync::float8 AS syncs, wal_bytes::float8 AS bytes, \
                    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) \
                        ::float8 AS commits \
               FROM pg_stat_wal",
        )
        .fetch_one(watch)
        .await
        .expect("counters");
        Self {
            wal_syncs: row.get("syncs"),
            wal_bytes: row.get("bytes"),
            transactions: row.get("commits"),
        }
    }
}
