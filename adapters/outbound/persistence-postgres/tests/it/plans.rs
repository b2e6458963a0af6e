//! The plans of the statements that run all the time.
//!
//! Invariant: with many recorded deliveries none of them reads a whole table, under a custom and
//! under a generic plan; what an idle or a busy poll reads does not grow with what was recorded.

use crate::place::Place;
use crate::sample::{append, event};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor as _};

/// Events that are recorded, each in a scope of its own or the only open ones of a few.
const RECORDED: u32 = 20_000;

/// Fills the tables past their triggers, from one event that was appended.
async fn fill(place: &Place, recorded: u32) {
    let mut session = place.session().await;
    session
        .execute(AssertSqlSafe(format!(
            "SET session_replication_role = replica; \
             INSERT INTO outbox_event \
             SELECT 'e-' || lpad(n::text, 8, '0'), envelope_version, contract_id, \
                 payload_version, logical_destination_id, destination_binding_revision, \
                 aggregate_type, 'a' || n % 4000, n / 4000, 0, \
                 encode(sha256(('a' || n % 4000)::bytea), 'hex'), occurred_at, \
                 clock_timestamp() - interval '1 day', tenant_scope, correlation_id, \
                 causation_id, traceparent, tracestate, content_type, envelope_bytes, \
                 envelope_sha256, envelope_schema_hash, payload_schema_hash, schema_set_hash, \
                 contract_catalog_revision, publication_epoch, dispatch_authority, \
                 transaction_resource_id, ordering_required \
             FROM outbox_event AS e, generate_series(1, {recorded} + 300) AS n \
             WHERE e.event_id = 'e-seed'; \
             INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
                 dispatch_profile_id, destination_binding_revision, state, claim_count, \
                 publication_attempt_count, first_attempt_at, last_outcome_certainty, \
                 provider_generation, provider_record_reference, delivery_recorded_at, \
                 terminal_at, created_at, automatic_attempt_deadline, partition_key_text, \
                 aggregate_sequence, aggregate_event_index, ordering_required, claim_partition, \
                 claim_lane) \
             SELECT e.event_id, 1, 'CURRENT', 'p', e.destination_binding_revision, \
                 CASE WHEN recorded THEN 'DELIVERY_RECORDED' ELSE 'READY' END, \
                 recorded::integer, recorded::integer, \
                 CASE WHEN recorded THEN e.created_at END, \
                 CASE WHEN recorded THEN 'ACCEPTED' END, 'g', 'r', \
                 CASE WHEN recorded THEN e.created_at END, \
                 CASE WHEN recorded THEN e.created_at END, e.created_at, \
                 clock_timestamp() + interval '1 day', e.partition_key_text, \
                 e.aggregate_sequence, 0, true, 0, \
                 get_byte(sha256(e.logical_destination_id::bytea), 0) \
             FROM (SELECT *, substr(event_id, 3)::integer <= {recorded} AS recorded \
                   FROM outbox_event WHERE event_id LIKE 'e-0%') AS e; \
             INSERT INTO outbox_delivery_attempt_observation (event_id, delivery_generation, \
                 publication_attempt_id, observation_sequence, observation_type, \
                 claim_token_digest, producer_generation, destination_binding_revision) \
             SELECT event_id, 1, event_id, 1, 'ATTEMPT_ADMITTED', sha256(event_id::bytea), 'g', \
                 destination_binding_revision FROM outbox_delivery WHERE claim_count = 1; \
             SET session_replication_role = origin"
        )))
        .await
        .expect("filled");
}

const ANALYZE: &str = "ANALYZE outbox_event, outbox_delivery, outbox_delivery_attempt_observation";

/// A statement with the arguments that it runs with.
struct Planned {
    name: &'static str,
    sql: &'static str,
    arguments: &'static str,
}

macro_rules! planned {
    ($($name:literal: $arguments:literal),+ $(,)?) => {
        [$(Planned {
            name: $name,
            sql: include_str!(concat!("../../src/sql/", $name, ".sql")),
            arguments: $arguments,
        }),+]
    };
}

const KNOWN: &str = "array['sample.record.kept'], array[1], array[sha256('payload')], \
                     array['sample-events'], array['sample-events-r1']";

fn statements() -> Vec<Planned> {
    planned! {
        "scan": "get_byte(sha256('sample-events'), 0)::smallint, '', '', -1, -1, 'g', 16, 4096,
            KNOWN, true, 'g'",
        "lock_head": "'e-00030001', 1, 1",
        "claim": r"'e-00030001', 1, 1, '\x00', 'w', 1, 1, 5, 'a', 'g', '\x00', false, 'DEADLINE'",
        "abandon_attempt": r"'e-00000001', 1, '\x00', 'DEADLINE'",
        "spend_budget": "'e-00030001', 1, 1, 1, 5, 'DEADLINE_EXCEEDED', 'DEADLINE'",
        "read_event": "'e-00030001', true",
        "look_at_head": "'e-00030001', 1",
        "lock_delivery": "'e-00030001', 1",
        "record_outcome": r"'e-00030001', 1, '\x00', 'w', 'DELIVERY_RECORDED', 0, 'ACCEPTED',
            'NO_RETRY', NULL, NULL, 'g', 'r', 1, 'a', '\x00', 'b'",
        "renew_claim": r"'e-00030001', 1, '\x00', 'w', 1, 'a', '\x00'",
        "find_attempt": r"'e-00000001', '\x00', sha256('e-00000001')",
        "lock_deliveries": "array['e-00000001', 'e-00000002'], array[1, 1]",
        "late_observations": r"array['e-00000001'], array[1], array['a'], array['\x00'::bytea],
            array['g'], array['b'], array[1], array['r'], array['ACCEPTED'], array['NO_RETRY']",
        "admitted_attempts": r"array['e-00000001'], array[1], array['a'], array['\x00'::bytea]",
        "find_delivery": "'e-00000001'",
        "deliveries_after": "'e-00010000', 100",
    }
    .into_iter()
    .collect()
}

/// The statements of a batch, which state how they want to be planned.
fn batch_statements() -> Vec<Planned> {
    planned! {
        "claim_window": r"array['e-00020001', 'e-00020002'], array[1, 1], array[1, 1],
            array['\x00'::bytea, '\x01'], array['\x00'::bytea, '\x01'], array['a', 'b'], 'w', 1, 1,
            'g', 'DEADLINE_EXCEEDED', 'DEADLINE', false",
        "record_window": r"array['e-00020001'], array[1], array['\x00'::bytea], array['w'],
            array['DELIVERY_RECORDED'], array[0], array['ACCEPTED'], array['NO_RETRY'],
            array[NULL::text], array[NULL::text], array['g'], array['r'], array[1], array['a'],
            array['\x00'::bytea], array['b']",
    }
    .into_iter()
    .collect()
}

/// Singletons are read whole, one page each.
fn reads_a_table(plan: &str) -> bool {
    plan.lines()
        .filter(|line| line.contains("Seq Scan on outbox"))
        .any(|line| {
            !line.contains("outbox_claim_gate") && !line.contains("outbox_publication_epoch")
        })
}

async fn explain(session: &mut PgConnection, options: &str, planned: &Planned) -> String {
    let arguments = planned.arguments.replace("KNOWN", KNOWN);
    let mut explained = format!("EXPLAIN ({options}) EXECUTE planned({arguments})");
    explained.retain(|character| character != '\n');
    session
        .execute(AssertSqlSafe(format!("PREPARE planned AS {}", planned.sql)))
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", planned.name));
    let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explained))
        .persistent(false)
        .fetch_all(&mut *session)
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", planned.name));
    session
        .execute("DEALLOCATE planned")
        .await
        .expect("deallocated");
    plan.join("\n")
}

/// Pages that a plan with ANALYZE and BUFFERS says it touched, at its top.
fn pages(plan: &str) -> u64 {
    let line = plan
        .lines()
        .find(|line| line.trim_start().starts_with("Buffers:"))
        .unwrap_or_else(|| panic!("no buffers in {plan}"));
    line.split_whitespace()
        .filter_map(|word| {
            word.strip_prefix("hit=")
                .or_else(|| word.strip_prefix("read="))
        })
        .map(|number| number.parse::<u64>().expect("a number of pages"))
        .sum()
}

/// A place with one event.
async fn seeded() -> Place {
    let place = Place::create().await;
    let store = place.store().await;
    append(&store, &event("e-seed", "seed", 1)).await;
    place
}

#[tokio::test]
async fn no_frequent_statement_reads_a_whole_table() {
    let place = seeded().await;
    fill(&place, RECORDED).await;
    let mut session = place.session().await;
    session.execute(ANALYZE).await.expect("analyzed");
    for mode in ["force_custom_plan", "force_generic_plan"] {
        session
            .execute(AssertSqlSafe(format!("SET plan_cache_mode = {mode}")))
            .await
            .expect("set");
        for planned in statements() {
            let plan = explain(&mut session, "COSTS OFF", &planned).await;
            assert!(
                !reads_a_table(&plan),
                "{} under {mode}:\n{plan}",
                planned.name
            );
        }
        a_poll_reads_few_pages(&mut session).await;
    }
}

/// A poll that finds heads, and one that finds none, read a few pages of thousands.
async fn a_poll_reads_few_pages(session: &mut PgConnection) {
    let find = statements().remove(0);
    assert_eq!(find.name, "scan");
    let size: i64 = sqlx::query_scalar(
        "SELECT (pg_relation_size('outbox_delivery') + pg_relation_size('outbox_event')) / 8192",
    )
    .fetch_one(&mut *session)
    .await
    .expect("size");
    // Sixteen heads, each with a probe of its scope and one of its event.
    let busy = pages(&explain(session, "ANALYZE, BUFFERS", &find).await);
    assert!(busy < 200, "{busy} pages of {size}");
    let none = Planned {
        arguments: "get_byte(sha256('sample-events'), 0)::smallint, 'fz', 'fz', -1, -1, 'g', 16,
            4096, KNOWN, true, 'g'",
        ..find
    };
    let idle = pages(&explain(session, "ANALYZE, BUFFERS", &none).await);
    assert!(idle < 20, "{idle} pages of {size}");
    assert!(
        size > 1_000,
        "the tables are too small to show anything: {size} pages"
    );
}

/// The statements of a batch look each row up by key and write it by address, and the scan takes
/// one probe a scope, whatever the planner believes of the tables: never analyzed and empty,
/// filled without being told, analyzed, and filled again. `window.rs` asks the same of a million
/// rows.
#[tokio::test]
async fn a_batch_keeps_its_plan_at_every_size() {
    let place = seeded().await;
    let mut session = place.session().await;
    a_batch_goes_by_key(&mut session).await;
    fill(&place, 1_000).await;
    a_batch_goes_by_key(&mut session).await;
    session.execute(ANALYZE).await.expect("analyzed");
    a_batch_goes_by_key(&mut session).await;
    session
        .execute(
            "SET session_replication_role = replica; \
             DELETE FROM outbox_delivery_attempt_observation; DELETE FROM outbox_delivery; \
             DELETE FROM outbox_event WHERE event_id <> 'e-seed'; \
             SET session_replication_role = origin",
        )
        .await
        .expect("emptied");
    session.execute(ANALYZE).await.expect("analyzed");
    a_batch_goes_by_key(&mut session).await;
    fill(&place, RECORDED).await;
    a_batch_goes_by_key(&mut session).await;
}

/// The plans of a batch's statements, under the settings that its transaction begins with.
pub(crate) async fn a_batch_goes_by_key(session: &mut PgConnection) {
    session
        .execute(
            "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
             SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off; \
             SET LOCAL plan_cache_mode = force_generic_plan",
        )
        .await
        .expect("begun");
    let mut planned = batch_statements();
    planned.push(statements().remove(0));
    for planned in planned {
        let plan = explain(session, "COSTS OFF", &planned).await;
        assert!(!reads_a_table(&plan), "{}:\n{plan}", planned.name);
        assert!(
            !plan.contains("Hash Join") && !plan.contains("Merge Join"),
            "{}:\n{plan}",
            planned.name
        );
        if planned.name == "scan" {
            let probes = plan
                .matches("Index Scan using outbox_delivery_open_head on outbox_delivery")
                .count();
            assert_eq!(probes, 2, "{plan}");
            assert!(plan.contains("outbox_delivery_open_tolerant"), "{plan}");
            assert!(!plan.contains("Sort"), "{plan}");
        } else {
            assert!(plan.contains("Tid Scan on outbox_delivery"), "{plan}");
        }
    }
    session.execute("ROLLBACK").await.expect("ended");
}
