//! A full database, and rows that the schema refuses.

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::ports::{TransactionError, TransactionPort as _};
use domain_core::identity::EventId;
use sqlx::{Connection as _, Row as _};

/// `max_page_count` stands in for a full disk: SQLite answers SQLITE_FULL either way.
#[tokio::test]
async fn a_full_database_rolls_the_business_row_back_and_recovers() {
    let harness = SqliteHarness::fresh().await;
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                let pages: i64 = sqlx::query("PRAGMA page_count")
                    .fetch_one(tx.as_mut())
                    .await?
                    .get(0);
                assert!(pages > 1);
                // The statement answers with the limit; the least it accepts is the present size.
                sqlx::query("PRAGMA max_page_count = 1")
                    .fetch_one(tx.as_mut())
                    .await?;
                sqlx::query("INSERT INTO business VALUES ('small')")
                    .execute(tx.as_mut())
                    .await?;
                sqlx::query("INSERT INTO business VALUES (hex(zeroblob(200000)))")
                    .execute(tx.as_mut())
                    .await
            })
        })
        .await;
    let Err(TransactionError::Work(error)) = result else {
        panic!("{result:?}");
    };
    let code = error.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("13"), "{error}");
    assert_eq!(harness.business_rows().await, Vec::<String>::new());
    let result = harness
        .transactions()
        .in_write(|tx| {
            Box::pin(async move {
                sqlx::query("PRAGMA max_page_count = 1073741823")
                    .fetch_one(tx.as_mut())
                    .await?;
                sqlx::query("INSERT INTO business VALUES (hex(zeroblob(200000)))")
                    .execute(tx.as_mut())
                    .await
            })
        })
        .await;
    result.expect("there is room again");
    assert_eq!(harness.business_rows().await.len(), 1);
}

/// Rows from outside the ports meet the same grammar.
#[tokio::test]
async fn the_schema_refuses_what_no_port_would_write() {
    let harness = SqliteHarness::fresh().await;
    let event = EventId::parse("e1").expect("event id");
    let mut connection = harness.connect().await;
    let mut tx = connection.begin().await.expect("begin");
    let faithful = sqlx::query(insert("?1", "'c'", "'{}'", "NULL"))
        .bind(event.as_str())
        .execute(&mut *tx)
        .await;
    assert_eq!(faithful.expect("faithful").rows_affected(), 1);
    tx.rollback().await.expect("rolled back");
    for sql in [
        insert("?1 || ' '", "'c'", "'{}'", "NULL"),
        insert("'é' || ?1", "'c'", "'{}'", "NULL"),
        insert("?1 || hex(zeroblob(96))", "'c'", "'{}'", "NULL"),
        insert("?1 || '2'", "''", "'{}'", "NULL"),
        insert("?1 || '3'", "'c'", "''", "NULL"),
        insert("?1 || '4'", "'c'", "zeroblob(1048577)", "NULL"),
        insert("?1 || '5'", "'c'", "'{}'", "'no trace parent'"),
    ] {
        let refused = harness.raw(sql, &event).await.expect_err(sql);
        let code = refused.as_database_error().and_then(|error| error.code());
        assert_eq!(code.as_deref(), Some("275"), "{refused}");
    }
}

/// A polling event without a delivery does not commit, and its note cannot be taken away.
#[tokio::test]
async fn a_polling_event_without_a_delivery_does_not_commit() {
    let harness = SqliteHarness::fresh().await;
    let event = EventId::parse("e1").expect("event id");
    let foreign_key = |error: &sqlx::Error| {
        error
            .as_database_error()
            .and_then(|error| error.code())
            .as_deref()
            == Some("787")
    };
    let sql = insert("?1", "'c'", "'{}'", "NULL");
    let refused = harness.raw(sql, &event).await.expect_err("alone");
    assert!(foreign_key(&refused), "{refused}");

    let mut connection = harness.connect().await;
    let mut tx = connection.begin().await.expect("begin");
    let inserted = sqlx::query(sql)
        .bind(event.as_str())
        .execute(&mut *tx)
        .await;
    assert_eq!(inserted.expect("until the commit").rows_affected(), 1);
    for evasion in [
        "DELETE FROM outbox_missing_delivery",
        "UPDATE outbox_missing_delivery SET event_id = 'other'",
    ] {
        let refused = sqlx::query(evasion).execute(&mut *tx).await;
        refused.expect_err(evasion);
    }
    let refused = tx.commit().await.expect_err("at the commit");
    assert!(foreign_key(&refused), "{refused}");
    drop(connection);
    assert!(
        harness
            .raw("DELETE FROM outbox_event WHERE event_id = ?1", &event)
            .await
            .is_ok_and(|rows| rows == 0)
    );
}

/// An insert into `outbox_event` with the given expressions, kept for the whole test run.
fn insert(event_id: &str, correlation: &str, envelope: &str, traceparent: &str) -> &'static str {
    let sql = format!(
        "INSERT INTO outbox_event (
            event_id, envelope_version, contract_id, payload_version, logical_destination_id,
            destination_binding_revision, aggregate_type, aggregate_id, aggregate_sequence,
            aggregate_event_index, partition_key_text, ordering_required, occurred_at, created_at,
            tenant_scope, correlation_id, traceparent, content_type, envelope_sha256,
            envelope_schema_hash, payload_schema_hash, schema_set_hash, contract_catalog_revision,
            publication_epoch, dispatch_authority, transaction_resource_id, envelope_bytes)
         SELECT {event_id}, 1, 'a.b', 1, 'd', 'r', 'a', {event_id}, 1, 0, hex(zeroblob(32)), 1, 0,
            0, 'system', {correlation}, {traceparent}, 'application/json', zeroblob(32),
            zeroblob(32), zeroblob(32), zeroblob(32), zeroblob(32), 1, 'POLLING_V2', resource_id,
            CAST({envelope} AS BLOB)
         FROM transaction_resource"
    );
    Box::leak(sql.into_boxed_str())
}
