//! Scopes that cannot go: exhausted heads and heads whose retry is not due, each with ready successors.
//!
//! Invariant: they are spread over all partitions and every one of them is open, so a search that
//! looks everywhere meets them all. They are written past the triggers; no relay reads their documents.

use crate::fill::{self, Load};
use crate::latency::{self, Took};
use crate::place::{Card, Database};
use sqlx::AssertSqlSafe;
use std::time::Duration;

/// Ready events behind each blocked head.
const BEHIND: u32 = 10;
/// Time between two events that can go; the search for the one before is over.
const PACE: Duration = Duration::from_millis(1_709);
/// The event that the blocked rows are copied from, and its number, which no measured one has.
const SEED: (Load, u32) = (
    Load {
        events: 1,
        scopes: 1_000_000,
        first_sequence: 1,
    },
    999_999,
);

/// A store with so many blocked scopes.
pub(crate) async fn store(scopes: u32) -> Database {
    let database = Database::create("blocked").await;
    fill::fill_from(&database, SEED.0, SEED.1).await;
    let mut connection = database.connect().await;
    let rows = format!(
        "SET session_replication_role = replica; \
         INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, destination_binding_revision, state, claim_count, \
             publication_attempt_count, first_attempt_at, next_attempt_at, terminal_at, \
             automatic_attempt_deadline, partition_key_text, aggregate_sequence, \
             aggregate_event_index, ordering_required, claim_partition, claim_lane) \
         SELECT 'blocked-' || scope || '-' || place, 1, 'CURRENT', d.dispatch_profile_id, \
             d.destination_binding_revision, \
             CASE WHEN place > 0 THEN 'READY' WHEN scope % 2 = 0 THEN 'EXHAUSTED' \
                 ELSE 'RETRY_WAIT' END, \
             1, 1, clock_timestamp(), \
             CASE WHEN place = 0 AND scope % 2 = 1 \
                 THEN clock_timestamp() + interval '1 day' END, \
             CASE WHEN place = 0 AND scope % 2 = 0 THEN clock_timestamp() END, \
             clock_timestamp() + interval '1 day', key, place, 0, true, \
             get_byte(decode(left(key, 2), 'hex'), 0), d.claim_lane \
           FROM outbox_delivery AS d, generate_series(1, {scopes}) AS scope, \
                encode(sha256(scope::text::bytea), 'hex') AS key, \
                generate_series(0, {BEHIND}) AS place; \
         SET session_replication_role = origin; \
         VACUUM (ANALYZE)"
    );
    for statement in rows.split("; ") {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
            .execute(&mut connection)
            .await
            .expect("blocked scopes");
    }
    database
}

/// Single events, each of a scope of its own.
pub(crate) async fn measure(card: Card, blocked: &Database, events: u32) -> Took {
    let database = blocked.copy().await;
    let load = Load {
        events,
        scopes: events,
        first_sequence: 1,
    };
    let took = latency::measure_in(&database, card, load, PACE).await;
    database.remove().await;
    took
}
