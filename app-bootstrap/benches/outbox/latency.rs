//! From an append's commit to its record's acknowledgement, at a pace that leaves the relay idle.
//!
//! Invariant: both ends are read from this machine's wall clock: here when the commit was answered, in
//! the relay when the broker's acknowledgement arrived, as its journal keeps it.

use crate::fill::{Load, appender, draft, postgres};
use crate::place::{self, Card, Database, Scene};
use crate::relay::Relay;
use application_core::ports::{TransactionError, TransactionPort as _};
use application_core::usecase::AppendEventError;
use sqlx::{PgConnection, Row as _};
use std::collections::HashMap;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Time between two events; no multiple of the relay's poll interval.
pub(crate) const IDLE: Duration = Duration::from_millis(23);
/// Events that are sent before it counts.
const WARM_UP: u32 = 20;

/// Milliseconds.
pub(crate) struct Took {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
}

impl Took {
    fn of(mut took: Vec<f64>) -> Self {
        took.sort_by(f64::total_cmp);
        let rank = |share: f64| took[((took.len() - 1) as f64 * share).round() as usize];
        Self {
            p50: rank(0.5),
            p99: rank(0.99),
            longest: rank(1.0),
        }
    }
}

/// Single events, each of the next of so many scopes, in a store that has nothing else.
pub(crate) async fn measure(card: Card, scopes: u32, events: u32) -> Took {
    let database = Database::create("latency").await;
    let load = Load {
        events: WARM_UP + events,
        scopes,
        first_sequence: 1,
    };
    let took = measure_in(&database, card, load, IDLE).await;
    database.remove().await;
    took
}

/// The events of a load, one at a time, in a store that may have others; the first few do not count.
pub(crate) async fn measure_in(
    database: &Database,
    card: Card,
    load: Load,
    pace: Duration,
) -> Took {
    let scene = Scene::on(database, card).await;
    let store = scene.open().await;
    let kafka = postgres(&store);
    let mut relay = Relay::start(&scene);
    let mut committed = HashMap::new();
    for number in 0..load.events {
        let next = Instant::now() + pace;
        let draft = draft(number, load);
        let id = draft.event_id.as_str().to_owned();
        let appender = appender(&scene.compiled, &kafka.outbox);
        let appended: Result<(), TransactionError<AppendEventError>> = kafka
            .transactions
            .in_write(move |tx| {
                Box::pin(async move { appender.append(tx, &draft).await.map(drop) })
            })
            .await;
        appended.expect("appended");
        let now = UNIX_EPOCH.elapsed().expect("after 1970");
        if number >= WARM_UP {
            committed.insert(id, now.as_secs_f64());
        } else {
            // The relay may still be starting.
            let topic = &scene.topic;
            place::until("a first event sent", Duration::from_millis(5), || {
                relay.check();
                std::future::ready(topic.records() > u64::from(number))
            })
            .await;
        }
        place::pause(next.saturating_duration_since(Instant::now())).await;
    }
    let mut watch = database.connect().await;
    let began = Instant::now();
    let acknowledged = loop {
        relay.check();
        let so_far = acknowledged(&mut watch, &committed).await;
        if so_far.len() == committed.len() {
            break so_far;
        }
        assert!(began.elapsed() < place::LIMIT, "not acknowledged: {card:?}");
        place::pause(Duration::from_millis(50)).await;
    };
    relay.end();
    drop(watch);
    store.close().await;
    scene.remove().await;
    Took::of(acknowledged)
}

/// How long each event took, in milliseconds, of those that are acknowledged so far.
async fn acknowledged(watch: &mut PgConnection, committed: &HashMap<String, f64>) -> Vec<f64> {
    sqlx::query(
        "SELECT event_id, extract(epoch FROM acknowledged_at)::float8 AS acknowledged \
           FROM outbox_delivery_attempt_observation \
          WHERE observation_type = 'OUTCOME_OBSERVED' AND acceptance_certainty = 'ACCEPTED' \
            AND event_id LIKE 'bench-%'",
    )
    .fetch_all(watch)
    .await
    .expect("acknowledgements")
    .iter()
    .filter_map(|row| {
        let at = committed.get(row.get::<&str, _>("event_id"))?;
        Some((row.get::<f64, _>("acknowledged") - at) * 1_000.0)
    })
    .collect()
}
