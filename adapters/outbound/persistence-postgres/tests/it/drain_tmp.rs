//! Temporary.
use crate::place::Place;
use crate::sample::{acknowledged, append, event};
use crate::window::{claim, window};
use application_core::ports::{OutboxWindowPort as _, PartitionShare};
use sqlx::{AssertSqlSafe, Executor as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

fn var(name: &str, other: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(other)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain() {
    let (scopes, total, workers, size) = (
        var("SCOPES", 4000),
        var("TOTAL", 120000),
        var("WORKERS", 4),
        var("WINDOW", 1000),
    );
    let place = Place::create().await;
    let store = place.store().await;
    append(&store, &event("e-seed", "seed", 1)).await;
    let mut session = place.session().await;
    session.execute(AssertSqlSafe(format!(
        "SET session_replication_role = replica; SET statement_timeout = 0; \
         INSERT INTO outbox_event \
         SELECT 'e-' || md5(n::text), envelope_version, contract_id, \
             payload_version, logical_destination_id, destination_binding_revision, \
             aggregate_type, 'a' || n % {scopes}, n / {scopes}, 0, \
             encode(sha256(('a' || n % {scopes})::bytea), 'hex'), occurred_at, \
             clock_timestamp(), tenant_scope, correlation_id, \
             causation_id, traceparent, tracestate, content_type, convert_to(repeat('x', 400), 'UTF8'), \
             envelope_sha256, envelope_schema_hash, payload_schema_hash, schema_set_hash, \
             contract_catalog_revision, publication_epoch, dispatch_authority, \
             transaction_resource_id, ordering_required \
         FROM outbox_event AS e, generate_series(1, {total}) AS n \
         WHERE e.event_id = 'e-seed'; \
         INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, destination_binding_revision, state, created_at, automatic_attempt_deadline, partition_key_text, \
             aggregate_sequence, aggregate_event_index, ordering_required, claim_partition, claim_lane) \
         SELECT e.event_id, 1, 'CURRENT', 'p', e.destination_binding_revision, 'READY', e.created_at, \
             clock_timestamp() + interval '1 day', e.partition_key_text, \
             e.aggregate_sequence, 0, true, 0, get_byte(sha256(e.logical_destination_id::bytea), 0) \
         FROM outbox_event AS e WHERE event_id <> 'e-seed'; \
         SET session_replication_role = origin; CHECKPOINT"
    ))).await.expect("filled");
    if var("ANALYZE", 1) == 1 {
        session
            .execute("ANALYZE outbox_event, outbox_delivery")
            .await
            .expect("x");
    }
    let mut holder = place.session().await;
    if var("HOLD", 0) == 1 {
        holder
            .execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM outbox_event LIMIT 1")
            .await
            .expect("held");
    }
    let sync = if var("SYNC", 1) == 1 {
        "synchronous_commit=on"
    } else {
        "synchronous_commit=off"
    };
    let since: String = sqlx::query_scalar("SELECT clock_timestamp()::text")
        .fetch_one(&mut session)
        .await
        .expect("now");
    let done = Arc::new(AtomicUsize::new(0));
    let store = place.bare_store(&[sync]).await;
    let claim_us = Arc::new(AtomicUsize::new(0));
    let record_us = Arc::new(AtomicUsize::new(0));
    let windows = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|w| {
            let (store, done, claim_us, record_us, windows) = (
                store.clone(),
                done.clone(),
                claim_us.clone(),
                record_us.clone(),
                windows.clone(),
            );
            let share = PartitionShare::of(w as u32, workers as u32).expect("share");
            tokio::spawn(async move {
                let mut empty = 0;
                while done.load(Ordering::Relaxed) < total + 1 && empty < 30 {
                    let t = Instant::now();
                    let claimed = claim(&store, &window(size, share)).await;
                    claim_us.fetch_add(t.elapsed().as_micros() as usize, Ordering::Relaxed);
                    windows.fetch_add(1, Ordering::Relaxed);
                    if claimed.claimed.is_empty() {
                        empty += 1;
                        continue;
                    }
                    empty = 0;
                    let records: Vec<_> = claimed.claimed.iter().map(acknowledged).collect();
                    let t = Instant::now();
                    store
                        .windows()
                        .record_window(&records)
                        .await
                        .expect("recorded");
                    record_us.fetch_add(t.elapsed().as_micros() as usize, Ordering::Relaxed);
                    done.fetch_add(records.len(), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("worker");
    }
    let pids: Vec<i32> = sqlx::query_scalar("SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND backend_start > $2::timestamptz").bind(place.name()).bind(&since).fetch_all(place.pool()).await.expect("pids");
    let ticks: u64 = pids
        .iter()
        .map(|pid| {
            let s = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let f: Vec<&str> = s
                .rsplit(')')
                .next()
                .unwrap_or("")
                .split_whitespace()
                .collect();
            f[11].parse::<u64>().unwrap_or(0) + f[12].parse::<u64>().unwrap_or(0)
        })
        .sum::<u64>()
        - 0;
    let own = {
        let s = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let f: Vec<&str> = s
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        f[11].parse::<u64>().unwrap_or(0) + f[12].parse::<u64>().unwrap_or(0)
    };
    println!(
        "CPU us/event: backends {:.1} own {:.1}",
        ticks as f64 * 10000.0 / done.load(Ordering::Relaxed) as f64,
        own as f64 * 10000.0 / done.load(Ordering::Relaxed) as f64
    );
    let s = began.elapsed().as_secs_f64();
    let d = done.load(Ordering::Relaxed);
    println!(
        "DRAIN scopes {scopes} total {d} in {s:.2} s = {:.0}/s; windows {} avg {:.0}; per event claim {:.1} us record {:.1} us (worker time)",
        d as f64 / s,
        windows.load(Ordering::Relaxed),
        d as f64 / windows.load(Ordering::Relaxed) as f64,
        claim_us.load(Ordering::Relaxed) as f64 / d as f64,
        record_us.load(Ordering::Relaxed) as f64 / d as f64
    );
}
