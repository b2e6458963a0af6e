//! Events of earlier days: recorded, and kept for audit.
//!
//! Invariant: every event, delivery and journal row of theirs is there, in the scopes of the open ones
//! and before them in order. They are written past the triggers; no relay ever reads their documents.

use crate::place::Database;
use sqlx::AssertSqlSafe;

/// So many recorded events in each scope of a filled database.
pub(crate) async fn insert(filled: &Database, per_scope: u32) {
    let mut connection = filled.connect().await;
    let events = format!(
        "INSERT INTO outbox_event (event_id, envelope_version, contract_id, payload_version, \
             logical_destination_id, destination_binding_revision, aggregate_type, aggregate_id, \
             aggregate_sequence, aggregate_event_index, partition_key_text, occurred_at, \
             tenant_scope, correlation_id, content_type, envelope_bytes, envelope_sha256, \
             envelope_schema_hash, payload_schema_hash, schema_set_hash, \
             contract_catalog_revision, publication_epoch, dispatch_authority, \
             transaction_resource_id, ordering_required) \
         SELECT 'old-' || left(e.partition_key_text, 16) || '-' || n, envelope_version, \
             contract_id, payload_version, logical_destination_id, destination_binding_revision, \
             aggregate_type, aggregate_id, n, 0, partition_key_text, occurred_at, tenant_scope, \
             correlation_id, content_type, envelope_bytes, envelope_sha256, envelope_schema_hash, \
             payload_schema_hash, schema_set_hash, contract_catalog_revision, publication_epoch, \
             dispatch_authority, transaction_resource_id, ordering_required \
           FROM outbox_event AS e, generate_series(1, {per_scope}) AS n \
          WHERE e.aggregate_sequence = {per_scope} + 1"
    );
    const DELIVERIES: &str = "INSERT INTO outbox_delivery (event_id, delivery_generation, \
             authority_status, dispatch_profile_id, destination_binding_revision, state, \
             claim_count, publication_attempt_count, first_attempt_at, last_outcome_certainty, \
             provider_generation, provider_record_reference, delivery_recorded_at, terminal_at, \
             automatic_attempt_deadline, partition_key_text, aggregate_sequence, \
             aggregate_event_index, ordering_required, claim_partition, claim_lane) \
         SELECT e.event_id, 1, 'CURRENT', d.dispatch_profile_id, e.destination_binding_revision, \
             'DELIVERY_RECORDED', 1, 1, e.created_at, 'ACCEPTED', 'bench', 'bench/0@1', \
             e.created_at, e.created_at, d.automatic_attempt_deadline, e.partition_key_text, \
             e.aggregate_sequence, 0, true, d.claim_partition, d.claim_lane \
           FROM outbox_event AS e \
           JOIN outbox_delivery AS d \
             ON d.partition_key_text = e.partition_key_text \
            AND d.aggregate_sequence = $1 \
          WHERE e.event_id LIKE 'old-%'";
    const OBSERVATIONS: &str = "INSERT INTO outbox_delivery_attempt_observation (event_id, \
             delivery_generation, publication_attempt_id, observation_sequence, observation_type, \
             claim_token_digest, producer_generation, destination_binding_revision, \
             acceptance_certainty, retry_disposition, provider_record_reference, \
             acknowledged_at, observed_at) \
         SELECT d.event_id, 1, d.event_id, kind, \
             CASE kind WHEN 1 THEN 'ATTEMPT_ADMITTED' ELSE 'OUTCOME_OBSERVED' END, \
             sha256(d.event_id::bytea), 'bench', d.destination_binding_revision, \
             CASE kind WHEN 2 THEN 'ACCEPTED' END, CASE kind WHEN 2 THEN 'NO_RETRY' END, \
             CASE kind WHEN 2 THEN 'bench/0@1' END, CASE kind WHEN 2 THEN d.created_at END, \
             d.created_at \
           FROM outbox_delivery AS d, generate_series(1, 2) AS kind \
          WHERE d.event_id LIKE 'old-%'";
    let first_open = i64::from(per_scope) + 1;
    sqlx::raw_sql("SET session_replication_role = replica")
        .execute(&mut connection)
        .await
        .expect("past the triggers");
    sqlx::query(AssertSqlSafe(events))
        .execute(&mut connection)
        .await
        .expect("events");
    sqlx::query(DELIVERIES)
        .bind(first_open)
        .execute(&mut connection)
        .await
        .expect("deliveries");
    let written = sqlx::query(OBSERVATIONS)
        .execute(&mut connection)
        .await
        .expect("observations");
    println!("{} retained events", written.rows_affected() / 2);
    sqlx::raw_sql("VACUUM (ANALYZE)")
        .execute(&mut connection)
        .await
        .expect("vacuumed");
}
