//! The backlog's measure on real rows.
//!
//! Invariant: exact up to the count that is of interest, bounded above it.

use crate::harness::PostgresHarness;
use crate::operator::number;
use crate::sample::{append, event, event_id};
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::OutboxCapacityPort as _;
use domain_core::delivery::DeliveryStateName;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

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

/// With many recorded rows and statistics that know of none, a sample reads the open rows alone.
#[tokio::test]
async fn a_sample_reads_the_open_rows_alone() {
    const RECORDED: i64 = 20_000;
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("open", "open", 1)).await;
    h.pool
        .execute("ANALYZE outbox_delivery")
        .await
        .expect("analyzed");
    let mut session = h.place.session().await;
    session
        .execute(AssertSqlSafe(format!(
            "ALTER TABLE outbox_delivery SET (autovacuum_enabled = false); \
             SET session_replication_role = replica; \
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
             FROM outbox_delivery, generate_series(2, {RECORDED}) AS n; \
             SET session_replication_role = origin"
        )))
        .await
        .expect("filled");
    let sample = h.store.capacity().sample(100).await.expect("sampled");
    assert_eq!(sample.unresolved, 1);
    let mut tx = session.begin().await.expect("begin");
    tx.execute(
        "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
         SET LOCAL plan_cache_mode = force_generic_plan",
    )
    .await
    .expect("as a batch");
    tx.execute(AssertSqlSafe(format!(
        "PREPARE sampled AS {}",
        include_str!("../../src/sql/sample_backlog.sql")
    )))
    .await
    .expect("prepared");
    let plan: Vec<String> =
        sqlx::query_scalar("EXPLAIN (ANALYZE, TIMING off, SUMMARY off) EXECUTE sampled(101)")
            .persistent(false)
            .fetch_all(&mut *tx)
            .await
            .expect("explained");
    let plan = plan.join("\n");
    assert!(plan.contains("outbox_delivery_open"), "{plan}");
    assert!(!plan.contains("Seq Scan on outbox"), "{plan}");
    assert!(!plan.contains("Rows Removed"), "{plan}");
    tx.rollback().await.expect("rolled back");
    let held = number(&h.pool, "SELECT count(*) FROM outbox_delivery").await;
    assert_eq!(held, RECORDED);
}
