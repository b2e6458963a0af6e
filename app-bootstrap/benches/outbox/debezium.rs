//! Debezium with its outbox router under Kafka Connect, on the same events, server and broker.
//!
//! Invariant: it emits the record that the relay emits (key, document, headers), from the events of a
//! CDC epoch, which have no deliveries. A first backlog warms the worker up; a second one is appended
//! while the connector is stopped and timed by the topic's end offsets once it goes on.

use crate::fill::{Load, fill};
use crate::http::{ask, ask_if_there};
use crate::place::{self, Database, Topic};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::time::{Duration, Instant};

/// Events of the first backlog.
const WARM_UP: u32 = 30_000;

/// A running Kafka Connect worker with the connector.
pub(crate) struct Worker {
    /// `host:port` of its REST interface.
    pub(crate) address: String,
    pub(crate) pid: u32,
}

/// What it did.
pub(crate) struct Peer {
    /// Events a second, from the first to the last record of the second backlog.
    pub(crate) rate: f64,
    /// The worker's greatest resident memory.
    pub(crate) resident_mib: f64,
}

/// Drains a backlog of this size through the worker.
pub(crate) async fn measure(worker: &Worker, load: Load) -> Peer {
    let database = Database::create("debezium").await;
    let topic = Topic::create().await;
    let slot = database.name().to_owned();
    let mut connection = database.connect().await;
    sqlx::raw_sql(AssertSqlSafe(format!(
        "INSERT INTO outbox_publication_epoch (epoch_id, authority, state) \
             VALUES (2, 'CDC', 'PREPARED'); \
         UPDATE outbox_publication_epoch SET state = 'RETIRED', row_version = row_version + 1 \
          WHERE epoch_id = 1; \
         UPDATE outbox_publication_epoch SET state = 'ACTIVE', row_version = row_version + 1, \
                activated_at = clock_timestamp(), activated_by = 'bench', approved_by = 'bench' \
          WHERE epoch_id = 2; \
         CREATE PUBLICATION {slot} FOR TABLE outbox_event"
    )))
    .execute(&mut connection)
    .await
    .expect("a CDC epoch");
    sqlx::query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')")
        .bind(&slot)
        .execute(&mut connection)
        .await
        .expect("a slot");

    let first = Load {
        events: WARM_UP.min(load.events),
        ..load
    };
    fill(&database, first).await;
    let path = format!("/connectors/{slot}");
    let settings = json!({ "name": slot, "config": settings(&database, &topic.name) });
    ask(
        &worker.address,
        "POST",
        "/connectors",
        &settings.to_string(),
    )
    .await;
    until_records(worker, &path, &topic, u64::from(first.events)).await;
    ask(&worker.address, "PUT", &format!("{path}/stop"), "").await;
    place::until(
        "the connector stopped",
        Duration::from_millis(100),
        async || state(worker, &path).await == "STOPPED",
    )
    .await;

    let second = Load {
        // After the first backlog in each scope's order, under ids of their own.
        first_sequence: 1_000_000,
        ..load
    };
    sqlx::raw_sql("CHECKPOINT")
        .execute(&mut connection)
        .await
        .expect("a checkpoint");
    crate::fill::fill_from(&database, second, WARM_UP).await;
    let before = topic.records();
    ask(&worker.address, "PUT", &format!("{path}/resume"), "").await;
    place::until("a first record", Duration::from_millis(2), || {
        std::future::ready(topic.records() > before)
    })
    .await;
    let (began, early) = (Instant::now(), topic.records());
    let end = before + u64::from(second.events);
    until_records(worker, &path, &topic, end).await;
    let rate = (end - early) as f64 / began.elapsed().as_secs_f64();
    let resident_mib = place::resident_mib(worker.pid);

    ask(&worker.address, "DELETE", &path, "").await;
    let slot_is_free = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1";
    let connection = tokio::sync::Mutex::new(connection);
    place::until("the slot is free", Duration::from_millis(100), async || {
        sqlx::query_scalar(slot_is_free)
            .bind(&slot)
            .fetch_one(&mut *connection.lock().await)
            .await
            .expect("asked")
    })
    .await;
    sqlx::query("SELECT pg_drop_replication_slot($1)")
        .bind(&slot)
        .execute(&mut *connection.lock().await)
        .await
        .expect("dropped");
    drop(connection);
    topic.remove().await;
    database.remove().await;
    Peer { rate, resident_mib }
}

async fn until_records(worker: &Worker, path: &str, topic: &Topic, records: u64) {
    place::until(
        "Debezium's records",
        Duration::from_millis(50),
        async || {
            let found = topic.records();
            if found < records && state(worker, path).await == "FAILED" {
                panic!(
                    "{}",
                    ask(&worker.address, "GET", &format!("{path}/status"), "").await
                );
            }
            found >= records
        },
    )
    .await;
}

/// The state of the connector, or of its task when that failed. A new one has none for a moment.
async fn state(worker: &Worker, path: &str) -> String {
    let status = format!("{path}/status");
    let Some(status) = ask_if_there(&worker.address, "GET", &status, "").await else {
        return String::new();
    };
    let status: Value = serde_json::from_str(&status).expect("a status");
    let task = status["tasks"][0]["state"].as_str().unwrap_or_default();
    if task == "FAILED" {
        return task.to_owned();
    }
    status["connector"]["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn settings(database: &Database, topic: &str) -> Value {
    let url = database.url();
    let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let (login, place) = rest.rsplit_once('@').expect("a URL with a password");
    let (user, password) = login.split_once(':').expect("a URL with a password");
    let (server, _) = place.split_once('/').expect("a URL with a database");
    let (host, port) = server.split_once(':').unwrap_or((server, "5432"));
    json!({
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": host,
        "database.port": port,
        "database.user": user,
        "database.password": password,
        "database.dbname": database.name(),
        "topic.prefix": database.name(),
        "plugin.name": "pgoutput",
        "slot.name": database.name(),
        "publication.name": database.name(),
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
        "table.include.list": "public.outbox_event",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.debezium.converters.BinaryDataConverter",
        "header.converter": "org.apache.kafka.connect.storage.StringConverter",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.table.field.event.id": "event_id",
        "transforms.outbox.table.field.event.key": "partition_key_text",
        "transforms.outbox.table.field.event.payload": "envelope_bytes",
        "transforms.outbox.table.field.event.timestamp": "occurred_at",
        "transforms.outbox.route.by.field": "logical_destination_id",
        "transforms.outbox.route.topic.regex": ".*",
        "transforms.outbox.route.topic.replacement": topic,
        "transforms.outbox.table.fields.additional.placement":
            "contract_id:header:contract-id,payload_version:header:payload-version",
    })
}
