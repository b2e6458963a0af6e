//! The backlog's measure on real rows.
//!
//! Invariant: exact up to the count that is of interest, bounded above it.

use crate::harness::PostgresHarness;
use crate::sample::{append, event, event_id};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::OutboxCapacityPort as _;
use domain_core::delivery::DeliveryStateName;
use sqlx::{AssertSqlSafe, Executor as _};

/// Every unresolved state counts, no resolved one does, and the oldest is the oldest of them.
#[tokio::test]
async fn unresolved_rows_are_counted_with_the_oldest_creation() {
    let h = PostgresHarness::fresh().await;
    let capacity = h.store.capacity();
    let empty = capacity.sample(10).await.expect("sampled");
    assert_eq!((empty.unresolved, empty.oldest), (0, None));
    assert!(empty.store_bytes > 0);
    let mut unresolved = 0;
    let mut oldest = None;
    // Resolved ones are appended first, so that they would be the oldest.
    let mut states = DeliveryStateName::ALL
        .into_iter()
        .filter(|state| *state != DeliveryStateName::Claimed)
        .collect::<Vec<_>>();
    states.sort_by_key(|state| !state.releases_scope());
    for (number, state) in states.into_iter().enumerate() {
        let id = format!("e{number}");
        append(&h.store, &event(&id, &id, 1)).await;
        h.force_state(&event_id(&id), state).await;
        if !state.releases_scope() {
            unresolved += 1;
            let row = h.delivery(&event_id(&id)).await.expect("delivery");
            oldest = oldest.or(Some(row.created_at));
        }
    }
    let before = h.database_now().await;
    let sample = capacity.sample(unresolved).await.expect("sampled");
    assert_eq!((sample.unresolved, sample.oldest), (unresolved, oldest));
    assert!(sample.at >= before);
    // Above what is of interest the count stops at one more.
    let bounded = capacity.sample(2).await.expect("sampled");
    assert_eq!(bounded.unresolved, 3);
    assert!(bounded.oldest >= oldest);
}

/// Recorded rows with their events and journals, while the statistics know of none.
async fn many_recorded(h: &PostgresHarness, rows: i64) {
    h.pool
        .execute(
            "ANALYZE outbox_event, outbox_delivery, outbox_delivery_attempt_observation, \
             outbox_disposition_audit, outbox_legal_hold",
        )
        .await
        .expect("analyzed");
    let mut session = h.place.session().await;
    session
        .execute(AssertSqlSafe(format!(
            "ALTER TABLE outbox_event SET (autovacuum_enabled = false); \
             ALTER TABLE outbox_delivery SET (autovacuum_enabled = false); \
             ALTER TABLE outbox_delivery_attempt_observation SET (autovacuum_enabled = false); \
             SET session_replication_role = replica; \
             INSERT INTO outbox_event \
             SELECT 'r' || n, envelope_version, contract_id, payload_version, \
                 logical_destination_id, destination_binding_revision, aggregate_type, 'many', n, \
                 0, partition_key_text, occurred_at, created_at, tenant_scope, correlation_id, \
                 causation_id, traceparent, tracestate, content_type, envelope_bytes, \
                 envelope_sha256, envelope_schema_hash, payload_schema_hash, schema_set_hash, \
                 contract_catalog_revision, publication_epoch, dispatch_authority, \
                 transaction_resource_id, ordering_required \
             FROM outbox_event, generate_series(1, {rows}) AS n; \
             INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
                 dispatch_profile_id, destination_binding_revision, state, claim_count, \
                 publication_attempt_count, first_attempt_at, last_outcome_certainty, \
                 provider_generation, provider_record_reference, delivery_recorded_at, \
                 terminal_at, automatic_attempt_deadline, partition_key_text, \
                 aggregate_sequence, aggregate_event_index, ordering_required, claim_partition, \
                 claim_lane) \
             SELECT 'r' || n, 1, 'CURRENT', 'p', destination_binding_revision, \
                 'DELIVERY_RECORDED', 1, 1, created_at, 'ACCEPTED', 'g', 'r', created_at, \
                 created_at, automatic_attempt_deadline, partition_key_text, n, 0, true, \
                 claim_partition, claim_lane \
             FROM outbox_delivery, generate_series(1, {rows}) AS n; \
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

/// The plan of a statement under a batch's settings.
async fn plan(h: &PostgresHarness, options: &str, statement: &str, arguments: &str) -> String {
    let mut tx = h.pool.begin().await.expect("begin");
    tx.execute(
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
         SET LOCAL enable_mergejoin = off; SET LOCAL enable_bitmapscan = off; \
         SET LOCAL plan_cache_mode = force_generic_plan",
    )
    .await
    .expect("as a batch");
    tx.execute(AssertSqlSafe(format!("PREPARE planned AS {statement}")))
        .await
        .expect("prepared");
    let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!(
        "EXPLAIN ({options}) EXECUTE planned({arguments})"
    )))
    .persistent(false)
    .fetch_all(&mut *tx)
    .await
    .expect("explained");
    tx.execute("DEALLOCATE planned").await.expect("deallocated");
    tx.rollback().await.expect("rolled back");
    lines.join("\n")
}

/// With many recorded rows and statistics that know of none, a sample reads the open rows alone.
#[tokio::test]
async fn a_sample_reads_the_open_rows_alone() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("open", "open", 1)).await;
    many_recorded(&h, 20_000).await;
    let sample = h.store.capacity().sample(100).await.expect("sampled");
    assert_eq!(sample.unresolved, 1);
    let plan = plan(
        &h,
        "ANALYZE, TIMING off, SUMMARY off",
        include_str!("../../src/sql/sample_backlog.sql"),
        "101",
    )
    .await;
    assert!(plan.contains("outbox_delivery_open"), "{plan}");
    assert!(!plan.contains("Seq Scan on outbox"), "{plan}");
    assert!(!plan.contains("Rows Removed"), "{plan}");
}

/// Retention looks its rows up by key, whatever the statistics say of the tables' sizes.
#[tokio::test]
async fn retention_reads_no_table_as_a_whole() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("open", "open", 1)).await;
    many_recorded(&h, 5_000).await;
    for statistics in ["as of no row", "fresh"] {
        for (statement, arguments) in [
            (
                include_str!("../../src/sql/due_window.sql"),
                "NULL, 512, 0, 0",
            ),
            (
                include_str!("../../src/sql/lock_generations.sql"),
                "array['r1', 'r2']",
            ),
            (
                include_str!("../../src/sql/lock_events.sql"),
                "array['r1', 'r2']",
            ),
            (
                include_str!("../../src/sql/choose_removable.sql"),
                "array['r1', 'r2'], array[1, 1], 0, 0",
            ),
            (
                include_str!("../../src/sql/remove_observations.sql"),
                "array['r1', 'r2']",
            ),
            (
                include_str!("../../src/sql/remove_dispositions.sql"),
                "array['r1', 'r2']",
            ),
            (
                include_str!("../../src/sql/remove_deliveries.sql"),
                "array['r1', 'r2']",
            ),
            (
                include_str!("../../src/sql/remove_events.sql"),
                "array['r1', 'r2']",
            ),
        ] {
            let plan = plan(&h, "COSTS off", statement, arguments).await;
            for whole in ["Seq Scan on outbox", "hashed SubPlan"] {
                assert!(!plan.contains(whole), "statistics {statistics}: {plan}");
            }
        }
        h.pool
            .execute("ANALYZE outbox_event, outbox_delivery, outbox_delivery_attempt_observation")
            .await
            .expect("analyzed");
    }
}
