//! A backlog drained by the relay as `serve` composes it, publishing to Kafka.
//!
//! Invariant: the clock runs from the relay's start to the last recorded delivery.

use crate::fill::{appender, draft, fill};
use crate::scene::{Card, Scene};
use app_bootstrap::compose::{Provider, RelaySystem, Store};
use application_core::ports::{TransactionError, TransactionPort as _};
use application_core::usecase::AppendEventError;
use sqlx::{Connection as _, PgConnection, Row as _};
use std::time::{Duration, Instant};

/// What a drain took.
pub(crate) struct Drained {
    pub(crate) events: u32,
    /// Events a second.
    pub(crate) rate: f64,
    pub(crate) wal_syncs: f64,
    pub(crate) transactions: f64,
    /// This process's greatest resident memory so far.
    pub(crate) resident_mib: f64,
    /// From an append's commit to its delivery recorded, on an idle relay.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Events whose latency is measured, one after another on the idle relay.
const SINGLE_EVENTS: u32 = 100;

pub(crate) async fn rate(card: Card, scopes: u32, events: u32, retained: u32) -> Drained {
    let scene = Scene::create(card, u64::from(scopes)).await;
    let mut watch = scene.connect().await;
    if retained > 0 {
        retain(&scene, &mut watch, retained).await;
    }
    fill(&scene, events, scopes).await;
    sqlx::raw_sql("ANALYZE; CHECKPOINT")
        .execute(&mut watch)
        .await
        .expect("analyzed");
    let before = Counters::read(&mut watch).await;
    let provider = Provider::open(&scene.compiled).await.expect("the provider");
    let began = Instant::now();
    let mut system = RelaySystem::start(
        &scene.compiled,
        scene.store.relay_ports(),
        &provider,
        |publisher| publisher,
    );
    until_drained(&mut watch).await;
    let took = began.elapsed();
    let after = Counters::read(&mut watch).await;
    let (p50_ms, p99_ms) = latencies(&scene, &mut watch, events).await;
    assert!(system.stop_claiming().await, "every attempt ended in time");
    provider.close().await;
    system.finish().await;
    watch.close().await.expect("closed");
    scene.remove().await;
    Drained {
        events,
        rate: f64::from(events) / took.as_secs_f64(),
        wal_syncs: after.wal_syncs - before.wal_syncs,
        transactions: after.transactions - before.transactions,
        resident_mib: resident_mib(),
        p50_ms,
        p99_ms,
    }
}

/// Recorded rows of earlier days, written past the triggers.
async fn retain(scene: &Scene, watch: &mut PgConnection, retained: u32) {
    fill(scene, 1, 1).await;
    let statement = format!(
        "SET session_replication_role = replica; \
         INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, destination_binding_revision, state, claim_count, \
             publication_attempt_count, first_attempt_at, last_outcome_certainty, \
             provider_generation, provider_record_reference, delivery_recorded_at, terminal_at, \
             automatic_attempt_deadline, partition_key_text, aggregate_sequence, \
             aggregate_event_index, ordering_required, claim_partition, claim_lane) \
         SELECT 'old-' || n, 1, 'CURRENT', 'p', d.destination_binding_revision, \
             'DELIVERY_RECORDED', 1, 1, clock_timestamp(), 'ACCEPTED', 'g', 'r', \
             clock_timestamp(), clock_timestamp(), clock_timestamp(), \
             encode(sha256((n % 4000)::text::bytea), 'hex'), n, 0, true, 0, d.claim_lane \
         FROM outbox_delivery AS d, generate_series(1, {retained}) AS n; \
         DELETE FROM outbox_delivery WHERE event_id NOT LIKE 'old-%'; \
         DELETE FROM outbox_event; \
         SET session_replication_role = origin; ANALYZE"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
        .execute(watch)
        .await
        .expect("retained");
}

async fn until_drained(watch: &mut PgConnection) {
    loop {
        let open: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM outbox_delivery WHERE blocks_scope)")
                .fetch_one(&mut *watch)
                .await
                .expect("asked");
        if !open {
            break;
        }
        pause(Duration::from_millis(10)).await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at the backlog"
)]
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Appends one event at a time to the drained store and asks the database when it was recorded.
async fn latencies(scene: &Scene, watch: &mut PgConnection, first: u32) -> (f64, f64) {
    let Store::Kafka(kafka) = &scene.store else {
        panic!("the profile is a PostgreSQL one");
    };
    for number in first..first + SINGLE_EVENTS {
        let appender = appender(scene);
        let appended: Result<(), TransactionError<AppendEventError>> = kafka
            .transactions
            .in_write(move |tx| {
                Box::pin(async move {
                    // A scope of its own each.
                    appender
                        .append(tx, &draft(number, u32::MAX))
                        .await
                        .map(drop)
                })
            })
            .await;
        appended.expect("appended");
        until_drained(watch).await;
    }
    let row = sqlx::query(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY took) AS p50, \
                percentile_cont(0.99) WITHIN GROUP (ORDER BY took) AS p99 \
         FROM (SELECT (extract(epoch FROM delivery_recorded_at - created_at) * 1000)::float8 AS took \
               FROM outbox_delivery ORDER BY created_at DESC LIMIT $1) AS single",
    )
    .bind(i64::from(SINGLE_EVENTS))
    .fetch_one(watch)
    .await
    .expect("latencies");
    (row.get("p50"), row.get("p99"))
}

struct Counters {
    wal_syncs: f64,
    transactions: f64,
}

impl Counters {
    async fn read(watch: &mut PgConnection) -> Self {
        let row = sqlx::query(
            "SELECT (SELECT wal_sync FROM pg_stat_wal)::float8 AS syncs, \
                    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) \
                        ::float8 AS commits",
        )
        .fetch_one(watch)
        .await
        .expect("counters");
        Self {
            wal_syncs: row.get("syncs"),
            transactions: row.get("commits"),
        }
    }
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    kib / 1024.0
}
