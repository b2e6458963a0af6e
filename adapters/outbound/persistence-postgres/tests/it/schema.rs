//! What the tables refuse and keep, whoever writes to them.
//!
//! Invariant: a refusal is one of the schema's own (SQLSTATE class 23) and names its rule.

use crate::harness::{PostgresHarness, policy};
use crate::sample::{append, claimed, event, event_id, parts, request, try_append};
use crate::wait::Wait;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    OutboxAppendPort as _, OutboxDeliveryPort as _, TransactionPort as _,
};
use domain_core::delivery::DeliveryStateName;
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Executor as _};

/// Runs a statement that must be refused, and says which rule refused it.
async fn refused_by(pool: &PgPool, statement: &str) -> String {
    let mut tx = pool.begin().await.expect("begin");
    let error = tx
        .execute(AssertSqlSafe(statement))
        .await
        .expect_err(statement)
        .into_database_error()
        .expect("the server's answer");
    tx.rollback().await.expect("rolled back");
    let sqlstate = error.code().expect("SQLSTATE");
    assert!(sqlstate.starts_with("23"), "{sqlstate} for {statement}");
    error.constraint().unwrap_or_default().to_owned()
}

/// Events, journal, identity and epochs are there for ever; deliveries are never removed. Even a
/// statement that would meet no row is refused.
#[tokio::test]
async fn what_is_written_stays() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    claimed(&h.store, &request(1)).await;
    for (statement, rule) in [
        (
            "UPDATE outbox_event SET ordering_required = false",
            "outbox_event_insert_only",
        ),
        (
            "UPDATE outbox_event SET event_id = event_id WHERE false",
            "outbox_event_insert_only",
        ),
        (
            "DELETE FROM outbox_event WHERE false",
            "outbox_event_insert_only",
        ),
        ("TRUNCATE outbox_event CASCADE", "outbox_event_insert_only"),
        (
            "UPDATE outbox_delivery_attempt_observation SET observed_at = clock_timestamp()",
            "outbox_observation_insert_only",
        ),
        (
            "DELETE FROM outbox_delivery_attempt_observation",
            "outbox_observation_insert_only",
        ),
        (
            "TRUNCATE outbox_delivery_attempt_observation",
            "outbox_observation_insert_only",
        ),
        ("DELETE FROM outbox_delivery", "outbox_delivery_kept"),
        ("TRUNCATE outbox_delivery CASCADE", "outbox_delivery_kept"),
        (
            "UPDATE transaction_resource SET resource_id = 'x'",
            "transaction_resource_fixed",
        ),
        (
            "DELETE FROM transaction_resource",
            "transaction_resource_fixed",
        ),
        (
            "TRUNCATE transaction_resource",
            "transaction_resource_fixed",
        ),
        (
            "DELETE FROM outbox_publication_epoch",
            "outbox_publication_epoch_kept",
        ),
        (
            "UPDATE outbox_publication_epoch SET authority = 'CDC'",
            "outbox_publication_epoch_identity",
        ),
        (
            "INSERT INTO outbox_event SELECT * FROM outbox_event \
             ON CONFLICT (event_id) DO UPDATE SET ordering_required = false",
            "outbox_event_insert_only",
        ),
    ] {
        assert_eq!(refused_by(&h.pool, statement).await, rule, "{statement}");
    }
}

/// Every byte value, and what any text encoding would stumble over, read back past the store.
#[tokio::test]
async fn the_document_is_kept_byte_for_byte() {
    let h = PostgresHarness::fresh().await;
    let mut document: Vec<u8> = (0..=255).collect();
    document.extend_from_slice("\r\n\u{feff}é\\\\x41\\000".as_bytes());
    let mut given = parts("e1", "a", 1);
    given.envelope = document.clone();
    let sealed = ValidatedIntegrationEvent::seal(given);
    append(&h.store, &sealed).await;
    let (hex, hash): (String, Vec<u8>) =
        sqlx::query_as("SELECT encode(envelope_bytes, 'hex'), envelope_sha256 FROM outbox_event")
            .fetch_one(&h.pool)
            .await
            .expect("stored");
    let expected: String = document.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
    assert_eq!(hash, sealed.envelope_sha256().as_bytes());
}

/// `created_at` is the moment of the insert, not of the transaction's begin, and a writer cannot
/// choose it.
#[tokio::test]
async fn creation_is_stamped_by_the_database_at_the_insert() {
    let h = PostgresHarness::fresh().await;
    let (outbox, sealed) = (h.store.outbox(policy()), event("e1", "a", 1));
    let old: bool = h
        .store
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                let wait = Wait::new("a transaction that is not young any more");
                while !age(tx.as_mut()).await {
                    wait.again().await;
                }
                outbox.append(tx, &sealed).await.expect("appended");
                let old = sqlx::query_scalar(
                    "SELECT created_at > now() + interval '40 milliseconds' FROM outbox_event",
                )
                .fetch_one(tx.as_mut())
                .await
                .expect("read");
                Ok::<_, std::fmt::Error>(old)
            })
        })
        .await
        .expect("committed");
    assert!(old, "created_at is the begin of the transaction");
    // Rolled back, since an event without a delivery is refused at its commit.
    let mut tx = h.pool.begin().await.expect("begin");
    let chosen: bool = sqlx::query_scalar(
        "INSERT INTO outbox_event SELECT (jsonb_populate_record(e, jsonb_build_object( \
             'event_id', 'e2', 'aggregate_sequence', 2, 'created_at', '2001-01-01T00:00:00Z'))).* \
         FROM outbox_event AS e RETURNING created_at < now() - interval '1 day'",
    )
    .fetch_one(&mut *tx)
    .await
    .expect("inserted");
    assert!(!chosen, "the writer chose created_at");
}

async fn age(session: &mut PgConnection) -> bool {
    sqlx::query_scalar("SELECT clock_timestamp() > now() + interval '50 milliseconds'")
        .fetch_one(session)
        .await
        .expect("clock")
}

/// One column outside its rule is one refused insert, named after the rule.
#[tokio::test]
async fn every_column_keeps_its_rule() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let long = |length: usize| format!("'\"{}\"'", "a".repeat(length));
    for (column, value, rule) in [
        ("event_id", "'\"-a\"'", "outbox_event_id_grammar"),
        ("event_id", "'\"a b\"'", "outbox_event_id_grammar"),
        ("event_id", "'\"a\\n\"'", "outbox_event_id_grammar"),
        ("event_id", "'\"\"'", "outbox_event_id_grammar"),
        ("event_id", "'\"é\"'", "outbox_event_id_grammar"),
        ("envelope_version", "'2'", "outbox_event_envelope_version"),
        ("contract_id", "'\"one\"'", "outbox_event_contract_grammar"),
        ("contract_id", "'\"a..b\"'", "outbox_event_contract_grammar"),
        ("payload_version", "'0'", "outbox_event_payload_version"),
        (
            "logical_destination_id",
            "'\"Topic\"'",
            "outbox_event_destination_grammar",
        ),
        (
            "destination_binding_revision",
            "'\"1r\"'",
            "outbox_event_binding_grammar",
        ),
        (
            "aggregate_type",
            "'\"a_b\"'",
            "outbox_event_aggregate_type_grammar",
        ),
        ("aggregate_id", "'\"\"'", "outbox_event_aggregate_id_form"),
        ("aggregate_id", "'\" a\"'", "outbox_event_aggregate_id_form"),
        (
            "aggregate_id",
            "'\"a  b\"'",
            "outbox_event_aggregate_id_form",
        ),
        (
            "aggregate_id",
            "'\"a\\tb\"'",
            "outbox_event_aggregate_id_form",
        ),
        (
            "aggregate_id",
            "'\"e\\u0301\"'",
            "outbox_event_aggregate_id_form",
        ),
        (
            "aggregate_id",
            &format!("'\"{}\"'", "가".repeat(86)),
            "outbox_event_aggregate_id_form",
        ),
        ("aggregate_sequence", "'-1'", "outbox_event_order_range"),
        (
            "aggregate_sequence",
            "'9007199254740992'",
            "outbox_event_order_range",
        ),
        ("aggregate_event_index", "'-1'", "outbox_event_order_range"),
        (
            "partition_key_text",
            &long(63),
            "outbox_event_partition_key_form",
        ),
        (
            "partition_key_text",
            &format!("'\"{}\"'", "A".repeat(64)),
            "outbox_event_partition_key_form",
        ),
        (
            "tenant_scope",
            "'\"System\"'",
            "outbox_event_tenant_grammar",
        ),
        ("tenant_scope", "'\"\"'", "outbox_event_tenant_grammar"),
        (
            "correlation_id",
            "'\"a b\"'",
            "outbox_event_correlation_grammar",
        ),
        ("causation_id", "'\"\"'", "outbox_event_causation_grammar"),
        ("traceparent", "'\"00-0\"'", "outbox_event_traceparent_form"),
        ("tracestate", "'\"a=1\"'", "outbox_event_tracestate_form"),
        (
            "content_type",
            "'\"text/plain\"'",
            "outbox_event_content_type",
        ),
        (
            "envelope_bytes",
            r#"'"\\x"'"#,
            "outbox_event_envelope_present",
        ),
        (
            "envelope_sha256",
            r#"'"\\x00"'"#,
            "outbox_event_hash_lengths",
        ),
        (
            "payload_schema_hash",
            r#"'"\\x00"'"#,
            "outbox_event_hash_lengths",
        ),
        ("publication_epoch", "'99'", "outbox_event_active_epoch"),
        (
            "dispatch_authority",
            "'\"CDC\"'",
            "outbox_event_active_epoch",
        ),
        ("event_id", "'\"e1\"'", "outbox_event_pkey"),
        ("event_id", "'\"e2\"'", "outbox_event_order_key"),
    ] {
        let sequence = if rule == "outbox_event_order_key" {
            1
        } else {
            2
        };
        let statement = format!(
            "INSERT INTO outbox_event SELECT (jsonb_populate_record(e, jsonb_build_object( \
             'event_id', 'e2', 'aggregate_sequence', {sequence}) \
             || jsonb_build_object('{column}', {value}::jsonb))).* FROM outbox_event AS e"
        );
        assert_eq!(
            refused_by(&h.pool, &statement).await,
            rule,
            "{column} {value}"
        );
    }
}

/// A delivery whose copies are not its event's is refused; what is left out is filled in.
#[tokio::test]
async fn a_delivery_agrees_with_its_event() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Exhausted)
        .await;
    let requeued = |column: &str, value: &str| {
        format!(
            "UPDATE outbox_delivery SET authority_status = 'SUPERSEDED', \
             superseded_by_generation = 2, row_version = row_version + 1; \
             INSERT INTO outbox_delivery (event_id, delivery_generation, authority_status, \
             dispatch_profile_id, state, automatic_attempt_deadline{column}) \
             VALUES ('e1', 2, 'CURRENT', 'p', 'READY', clock_timestamp(){value})"
        )
    };
    for (column, value) in [
        (", partition_key_text", ", repeat('0', 64)"),
        (", aggregate_sequence", ", 2"),
        (", aggregate_event_index", ", 1"),
        (", ordering_required", ", false"),
        (", destination_binding_revision", ", 'sample-events-r2'"),
        (", claim_partition", ", -1"),
    ] {
        let rule = refused_by(&h.pool, &requeued(column, value)).await;
        assert_eq!(rule, "outbox_delivery_agrees_with_event", "{column}");
    }
    h.pool
        .execute(AssertSqlSafe(format!(
            "{}; INSERT INTO outbox_disposition_audit (event_id, delivery_generation, \
             next_generation, expected_row_version, disposition, from_state, to_state, operator, \
             reason_code, reason, reference, partition_key_text, envelope_sha256, \
             payload_schema_hash) \
             SELECT 'e1', 1, 2, d.row_version - 1, 'REMEDIATE_AND_REQUEUE', 'EXHAUSTED', 'READY', \
             'o', 'c', 'r', 'r', e.partition_key_text, e.envelope_sha256, e.payload_schema_hash \
             FROM outbox_delivery AS d JOIN outbox_event AS e USING (event_id) \
             WHERE d.delivery_generation = 1",
            requeued("", "")
        )))
        .await
        .expect("a requeue");
    let copies: (String, i64, i32, bool, i16, String) = sqlx::query_as(
        "SELECT partition_key_text, aggregate_sequence, aggregate_event_index, \
         ordering_required, claim_partition, destination_binding_revision \
         FROM outbox_delivery WHERE delivery_generation = 2",
    )
    .fetch_one(&h.pool)
    .await
    .expect("copies");
    let sealed = event("e1", "a", 1);
    let key = sealed.partition_key();
    assert_eq!(copies.0, key.as_str());
    assert_eq!((copies.1, copies.2, copies.3), (1, 0, true));
    assert_eq!(copies.4, i16::from(key.digest().as_bytes()[0]));
    assert_eq!(copies.5, "sample-events-r1");
    // The superseded generation is settled for ever, and a hand-over needs its successor.
    let settled = "UPDATE outbox_delivery SET state = 'SKIPPED', row_version = row_version + 1 \
                   WHERE delivery_generation = 1";
    assert_eq!(
        refused_by(&h.pool, settled).await,
        "outbox_delivery_transition"
    );
    h.force_state(&event_id("e1"), DeliveryStateName::Hold)
        .await;
    let alone = "SET CONSTRAINTS ALL IMMEDIATE; \
                 UPDATE outbox_delivery SET authority_status = 'SUPERSEDED', \
                 superseded_by_generation = 3, row_version = row_version + 1 \
                 WHERE delivery_generation = 2";
    assert_eq!(
        refused_by(&h.pool, alone).await,
        "outbox_delivery_successor_fkey"
    );
}

/// A row's columns fit its state, and its version moves by one.
#[tokio::test]
async fn columns_fit_their_state() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    claimed(&h.store, &request(1)).await;
    for (change, rule) in [
        ("claim_token = NULL", "outbox_delivery_claim"),
        ("claim_owner = NULL", "outbox_delivery_claim"),
        ("claim_until = NULL", "outbox_delivery_claim"),
        (r"claim_token = '\x00'", "outbox_delivery_claim_form"),
        ("next_attempt_at = clock_timestamp()", "outbox_delivery_due"),
        (
            "terminal_at = clock_timestamp()",
            "outbox_delivery_terminal",
        ),
        (
            "delivery_recorded_at = clock_timestamp()",
            "outbox_delivery_recorded",
        ),
        ("publication_attempt_count = 2", "outbox_delivery_counts"),
        ("first_attempt_at = NULL", "outbox_delivery_counts"),
        (
            "last_outcome_certainty = 'MAYBE'",
            "outbox_delivery_certainty",
        ),
        ("last_failure_class = 'X'", "outbox_delivery_failure_pair"),
        (
            "provider_record_reference = E'a\\nb'",
            "outbox_delivery_provider_form",
        ),
    ] {
        let statement =
            format!("UPDATE outbox_delivery SET {change}, row_version = row_version + 1");
        assert_eq!(refused_by(&h.pool, &statement).await, rule, "{change}");
    }
    for change in ["row_version = row_version", "row_version = row_version + 2"] {
        let statement = format!("UPDATE outbox_delivery SET {change}");
        let rule = refused_by(&h.pool, &statement).await;
        assert_eq!(rule, "outbox_delivery_versioned");
    }
}

/// A writer whose session has another search path, and a temporary table in the way, is held to
/// the same guards.
#[tokio::test]
async fn a_foreign_search_path_changes_nothing() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let schema = h.place.name();
    let mut session = h.place.session().await;
    session
        .execute(AssertSqlSafe(format!(
            "CREATE TEMPORARY TABLE outbox_event AS SELECT * FROM {schema}.outbox_event; \
             UPDATE pg_temp.outbox_event SET partition_key_text = repeat('0', 64); \
             SET search_path = pg_catalog; \
             SET session_replication_role = replica; \
             UPDATE {schema}.outbox_delivery SET delivery_generation = 2; \
             SET session_replication_role = origin; \
             INSERT INTO {schema}.outbox_delivery (event_id, delivery_generation, \
             authority_status, superseded_by_generation, dispatch_profile_id, state, \
             automatic_attempt_deadline) \
             VALUES ('e1', 1, 'SUPERSEDED', 2, 'p', 'READY', clock_timestamp())"
        )))
        .await
        .expect("inserted");
    let key: String = sqlx::query_scalar(AssertSqlSafe(format!(
        "SELECT partition_key_text FROM {schema}.outbox_delivery WHERE delivery_generation = 1"
    )))
    .fetch_one(&mut session)
    .await
    .expect("copied");
    assert_eq!(key, event("e1", "a", 1).partition_key().as_str());
}

/// A raw claim token is in the claimed row alone, and gone from it when the claim ends.
#[tokio::test]
async fn no_journal_keeps_a_raw_token() {
    let h = PostgresHarness::fresh().await;
    append(&h.store, &event("e1", "a", 1)).await;
    let claim = claimed(&h.store, &request(1)).await;
    h.store
        .deliveries()
        .record_outcome(&crate::sample::acknowledged(&claim))
        .await
        .expect("recorded");
    let token: String = claim
        .attempt
        .claim_token
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let found: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT o::text AS row FROM outbox_delivery_attempt_observation \
         AS o UNION ALL SELECT d::text FROM outbox_delivery AS d) AS rows \
         WHERE strpos(row, $1) > 0",
    )
    .bind(token)
    .fetch_one(&h.pool)
    .await
    .expect("searched");
    assert_eq!(found, 0);
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
    let acknowledged: i64 = sqlx::query_scalar(
        "SELECT (extract(epoch FROM acknowledged_at) * 1000000)::bigint \
         FROM outbox_delivery_attempt_observation WHERE observation_type = 'OUTCOME_OBSERVED'",
    )
    .fetch_one(&h.pool)
    .await
    .expect("acknowledged");
    assert_eq!(acknowledged, 1_785_215_431_000_007);
    try_append(&h.store, &h.store.transactions(), &event("e2", "a", 2))
        .await
        .expect("the scope goes on");
}
