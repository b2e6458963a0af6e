//! The transition table in the database against the one in the core, pair by pair.

use crate::harness::SqliteHarness;
use crate::tamper::{lift, restore};
use application_core::conformance::outbox::{OutboxHarness as _, core_allows};
use domain_core::delivery::DeliveryStateName;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

/// Appends past the ports, as the schema allows it.
const EVENT: &str = "
    BEGIN;
    INSERT INTO outbox_event (event_id, envelope_version, contract_id, payload_version,
        logical_destination_id, destination_binding_revision, aggregate_type, aggregate_id,
        aggregate_sequence, aggregate_event_index, partition_key_text, ordering_required,
        occurred_at, created_at, tenant_scope, correlation_id, content_type, envelope_sha256,
        envelope_schema_hash, payload_schema_hash, schema_set_hash, contract_catalog_revision,
        publication_epoch, dispatch_authority, transaction_resource_id, envelope_bytes)
    SELECT 'e1', 1, 'a.b', 1, 'd', 'r', 'a', 'a', 1, 0, lower(hex(zeroblob(32))), 1, 0, 0,
        'system', 'c', 'application/json', zeroblob(32), zeroblob(32), zeroblob(32), zeroblob(32),
        zeroblob(32), 1, 'POLLING_V2', resource_id, x'7b7d'
    FROM transaction_resource;
    INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status,
        dispatch_profile_id, destination_binding_revision, state, claim_count,
        publication_attempt_count, row_version, created_at, automatic_attempt_deadline, updated_at,
        partition_key_text, aggregate_sequence, aggregate_event_index, ordering_required,
        claim_partition, logical_destination_id)
    SELECT event_id, 1, 'CURRENT', 'p', 'r', 'READY', 1, 1, 1, 0, 1, 0, partition_key_text, 1, 0, 1,
        0, logical_destination_id
    FROM outbox_event;
    COMMIT";

/// The columns that a row of a state has.
fn columns(state: DeliveryStateName) -> String {
    let when = |wanted: DeliveryStateName, value: &str| {
        if state == wanted { value } else { "NULL" }.to_owned()
    };
    format!(
        "state = '{}', claim_token = {}, claim_owner = {}, claim_until = {}, \
         next_attempt_at = {}, delivery_recorded_at = {}, last_outcome_certainty = 'ACCEPTED', \
         provider_record_reference = 'r', row_version = row_version + 1",
        state.as_str(),
        when(DeliveryStateName::Claimed, "zeroblob(16)"),
        when(DeliveryStateName::Claimed, "'w'"),
        when(DeliveryStateName::Claimed, "1"),
        when(DeliveryStateName::RetryWait, "1"),
        when(DeliveryStateName::DeliveryRecorded, "1"),
    )
}

/// The guard in the database and the core's function allow the same transitions, all hundred.
#[tokio::test]
async fn the_database_has_the_cores_transition_table() {
    let harness = SqliteHarness::fresh().await;
    let mut connection = harness.connect().await;
    connection.execute(EVENT).await.expect("a delivery");
    for from in DeliveryStateName::ALL {
        for to in DeliveryStateName::ALL {
            let mut tx = connection.begin().await.expect("begin");
            // That a disposition has its audit row is another rule.
            lift(&mut tx, "outbox_delivery_disposition_is_audited").await;
            let guard = lift(&mut tx, "outbox_delivery_transition").await;
            tx.execute(AssertSqlSafe(format!(
                "UPDATE outbox_delivery SET {}",
                columns(from)
            )))
            .await
            .unwrap_or_else(|error| panic!("{from:?}: {error}"));
            restore(&mut tx, guard).await;
            let moved = tx
                .execute(AssertSqlSafe(format!(
                    "UPDATE outbox_delivery SET {}",
                    columns(to)
                )))
                .await;
            if let Err(error) = &moved {
                let error = error.as_database_error().expect("SQLite's answer");
                assert!(error.message().contains("no such transition"), "{error}");
            }
            assert_eq!(moved.is_ok(), core_allows(from, to), "{from:?} to {to:?}");
            tx.rollback().await.expect("rolled back");
        }
    }
}
