//! What a row of the inbox says (requirement 004 §25.1).

use crate::harness::SqliteHarness;
use application_core::conformance::outbox::OutboxHarness as _;
use application_core::event::EventIdentities;
use application_core::ports::{
    InboxDecision, InboxError, InboxStorePort as _, TransactionError, TransactionPort as _,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ConsumerId,
    ContractId, CorrelationId, EventId, EventIndex, LogicalDestinationId, PayloadVersion, TenantId,
    TenantScope,
};
use domain_core::instant::OccurredAt;
use sqlx::Row as _;

/// What a consumer may read of it.
fn identities() -> EventIdentities {
    EventIdentities {
        event_id: EventId::parse("e1").expect("event"),
        contract_id: ContractId::parse("sample.record.kept").expect("contract"),
        payload_version: PayloadVersion::new(7).expect("version"),
        destination: LogicalDestinationId::parse("sample-events").expect("destination"),
        tenant_scope: TenantScope::of(&TenantId::parse("acme").expect("tenant")),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("sample").expect("type"),
            AggregateId::parse("a").expect("aggregate"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(1).expect("sequence"),
            EventIndex::new(0).expect("index"),
        ),
        occurred_at: OccurredAt::new(1, 0).expect("instant"),
        correlation_id: CorrelationId::parse("c").expect("correlation"),
        causation_id: None,
    }
}

#[tokio::test]
async fn an_inbox_row_says_what_was_consumed_and_when() {
    let harness = SqliteHarness::fresh().await;
    let before = harness.database_now().await;
    let inbox = harness.inbox();
    let decision: Result<_, TransactionError<InboxError>> = harness
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                let consumer = ConsumerId::parse("consumer-1").expect("consumer");
                let hash = Sha256Digest::of(b"document");
                inbox.record(tx, &consumer, &identities(), hash).await
            })
        })
        .await;
    assert_eq!(decision.expect("inbox"), InboxDecision::FirstSeen);
    let after = harness.database_now().await;
    let row = sqlx::query("SELECT * FROM inbox_consumption")
        .fetch_one(harness.store.read_pool())
        .await
        .expect("one row");
    for (column, value) in [
        ("consumer_id", "consumer-1"),
        ("tenant_scope", "acme"),
        ("event_id", "e1"),
        ("contract_id", "sample.record.kept"),
    ] {
        assert_eq!(row.get::<&str, _>(column), value, "{column}");
    }
    assert_eq!(row.get::<i64, _>("payload_version"), 7);
    assert_eq!(row.get::<i64, _>("effect_generation"), 0);
    assert_eq!(
        row.get::<&[u8], _>("document_sha256"),
        Sha256Digest::of(b"document").as_bytes()
    );
    let span = before.epoch_micros()..=after.epoch_micros();
    for column in ["applied_at", "created_at"] {
        assert!(span.contains(&row.get::<i64, _>(column)), "{column}");
    }
}
