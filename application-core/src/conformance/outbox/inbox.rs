//! The inbox beside the effect.
//!
//! Invariant: the row commits with the effect or not at all; an equal id with another document is
//! a collision (requirement 004 §25.2).

use super::fixture::event;
use super::harness::OutboxHarness;
use super::transaction::CaseError;
use crate::event::EventIdentities;
use crate::ports::{InboxDecision, InboxError, InboxStorePort, TransactionError, TransactionPort};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::ConsumerId;

async fn record<H: OutboxHarness>(
    h: &H,
    consumer: &str,
    event: &str,
    document: &[u8],
) -> InboxDecision {
    record_of(h, consumer, identities(event), document).await
}

fn identities(id: &str) -> EventIdentities {
    event(id, "a", 1).seal().identities().clone()
}

async fn record_of<H: OutboxHarness>(
    h: &H,
    consumer: &str,
    event: EventIdentities,
    document: &[u8],
) -> InboxDecision {
    let inbox = h.inbox();
    let consumer = consumer_id(consumer);
    let hash = Sha256Digest::of(document);
    let result: Result<_, TransactionError<InboxError>> = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move { inbox.record(tx, &consumer, &event, hash).await })
        })
        .await;
    result.expect("inbox")
}

fn consumer_id(text: &str) -> ConsumerId {
    ConsumerId::parse(text).expect("consumer id")
}

/// First seen, then a duplicate.
pub async fn an_event_is_first_seen_once<H: OutboxHarness>(h: H) {
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::FirstSeen);
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::Duplicate);
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::Duplicate);
}

/// Another document under the same id is refused, and the first one stays.
pub async fn another_document_is_a_collision<H: OutboxHarness>(h: H) {
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::FirstSeen);
    assert_eq!(record(&h, "c", "e", b"2").await, InboxDecision::Collision);
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::Duplicate);
}

/// Consumers and events do not see each other.
pub async fn consumers_have_inboxes_of_their_own<H: OutboxHarness>(h: H) {
    for (consumer, event) in [("c", "e"), ("d", "e"), ("c", "f"), ("C", "e"), ("c", "E")] {
        let decision = record(&h, consumer, event, b"1").await;
        assert_eq!(decision, InboxDecision::FirstSeen, "{consumer} {event}");
    }
}

/// Tenants do not see each other: the same id in two scopes is two events.
pub async fn tenants_have_inboxes_of_their_own<H: OutboxHarness>(h: H) {
    let acme = || {
        event("e", "a", 1)
            .tenant("acme")
            .seal()
            .identities()
            .clone()
    };
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::FirstSeen);
    for (document, decision) in [
        (b"2", InboxDecision::FirstSeen),
        (b"2", InboxDecision::Duplicate),
        (b"1", InboxDecision::Collision),
    ] {
        assert_eq!(record_of(&h, "c", acme(), document).await, decision);
    }
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::Duplicate);
}

/// A rolled-back effect leaves no inbox row, so the event applies later.
pub async fn a_rolled_back_effect_leaves_no_inbox_row<H: OutboxHarness>(h: H) {
    let inbox = h.inbox();
    let result = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                let (consumer, event) = (consumer_id("c"), identities("e"));
                let decision = inbox
                    .record(tx, &consumer, &event, Sha256Digest::of(b"1"))
                    .await
                    .expect("inbox");
                assert_eq!(decision, InboxDecision::FirstSeen);
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                Err::<(), _>(CaseError::OnPurpose)
            })
        })
        .await;
    assert!(matches!(result, Err(TransactionError::Work(_))));
    assert_eq!(h.business_rows().await, Vec::<String>::new());
    assert_eq!(record(&h, "c", "e", b"1").await, InboxDecision::FirstSeen);
}

/// Within one transaction the second record of an event is a duplicate already.
pub async fn a_transaction_sees_its_own_inbox_row<H: OutboxHarness>(h: H) {
    let inbox = h.inbox();
    let decisions: Result<_, TransactionError<InboxError>> = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                let (consumer, event) = (consumer_id("c"), identities("e"));
                let hash = Sha256Digest::of(b"1");
                Ok((
                    inbox.record(tx, &consumer, &event, hash).await?,
                    inbox.record(tx, &consumer, &event, hash).await?,
                ))
            })
        })
        .await;
    assert_eq!(
        decisions.expect("inbox"),
        (InboxDecision::FirstSeen, InboxDecision::Duplicate)
    );
}
