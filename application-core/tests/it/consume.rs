//! Consuming: inbox before effect, and every refusal.

use crate::support::{Codec, Log, identities};
use application_core::event::EventIdentities;
use application_core::ports::{
    DecodedEnvelope, HandlerError, InboxDecision, InboxError, InboxStorePort,
    IntegrationEventHandler, TransactionError, TransactionPort, TxFuture, WriteTransaction,
};
use application_core::usecase::{
    ConsumeError, ConsumeEvent, ConsumeOutcome, RefusedRecord, TransportHeaders,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::ConsumerId;
use std::sync::Arc;

struct Transaction;

impl WriteTransaction for Transaction {
    fn mark_rollback_only(&mut self) {}
}

/// Notes how each transaction ended.
struct Transactions(Log);

impl TransactionPort for Transactions {
    type Tx = Transaction;

    async fn in_write<'a, T, E, W>(&'a self, work: W) -> Result<T, TransactionError<E>>
    where
        T: Send + 'a,
        E: std::error::Error + Send + 'static,
        W: for<'t> FnOnce(&'t mut Transaction) -> TxFuture<'t, T, E> + Send + 'a,
    {
        let result = work(&mut Transaction).await;
        self.0
            .note(if result.is_ok() { "commit" } else { "rollback" });
        result.map_err(TransactionError::Work)
    }
}

struct Inbox {
    log: Log,
    decision: InboxDecision,
}

impl InboxStorePort<Transaction> for Inbox {
    async fn record<'t>(
        &'t self,
        _: &'t mut Transaction,
        _: &'t ConsumerId,
        _: &'t EventIdentities,
        _: Sha256Digest,
    ) -> Result<InboxDecision, InboxError> {
        self.log.note("inbox");
        Ok(self.decision)
    }
}

struct Handler {
    log: Log,
    wants: bool,
    fails: Option<fn() -> HandlerError>,
}

impl IntegrationEventHandler<Transaction> for Handler {
    fn wants(&self, _: &EventIdentities) -> bool {
        self.wants
    }

    async fn apply<'t>(
        &'t self,
        _: &'t mut Transaction,
        _: &'t DecodedEnvelope,
    ) -> Result<(), HandlerError> {
        self.log.note("effect");
        self.fails.map_or(Ok(()), |fails| Err(fails()))
    }
}

struct Scene {
    log: Log,
    consume: ConsumeEvent<Transactions, Inbox, Handler>,
}

fn scene(decision: InboxDecision, wants: bool, fails: Option<fn() -> HandlerError>) -> Scene {
    let log = Log::default();
    let consume = ConsumeEvent::new(
        Arc::new(Transactions(log.clone())),
        Arc::new(Inbox {
            log: log.clone(),
            decision,
        }),
        Arc::new(Handler {
            log: log.clone(),
            wants,
            fails,
        }),
        Arc::new(Codec),
        ConsumerId::parse("consumer.v1").expect("id"),
    );
    Scene { log, consume }
}

async fn consume(scene: &Scene) -> Result<ConsumeOutcome, ConsumeError> {
    scene
        .consume
        .execute(b"{}", TransportHeaders::default())
        .await
}

#[tokio::test]
async fn a_first_seen_event_is_applied_after_its_inbox_row() {
    let scene = scene(InboxDecision::FirstSeen, true, None);
    let outcome = consume(&scene).await.expect("outcome");
    assert!(matches!(outcome, ConsumeOutcome::Applied));
    assert_eq!(scene.log.taken(), ["inbox", "effect", "commit"]);
}

#[tokio::test]
async fn a_duplicate_has_no_effect_and_a_collision_is_refused() {
    let duplicate = scene(InboxDecision::Duplicate, true, None);
    let outcome = consume(&duplicate).await.expect("outcome");
    assert!(matches!(outcome, ConsumeOutcome::Duplicate));
    assert_eq!(duplicate.log.taken(), ["inbox", "commit"]);
    let collision = scene(InboxDecision::Collision, true, None);
    let outcome = consume(&collision).await.expect("outcome");
    assert!(matches!(
        outcome,
        ConsumeOutcome::Refused(RefusedRecord::Collision { event_id })
            if event_id == identities().event_id
    ));
    assert_eq!(collision.log.taken(), ["inbox", "commit"]);
}

#[tokio::test]
async fn an_unwanted_event_opens_no_transaction() {
    let scene = scene(InboxDecision::FirstSeen, false, None);
    let outcome = consume(&scene).await.expect("outcome");
    assert!(matches!(outcome, ConsumeOutcome::NotWanted));
    assert!(scene.log.taken().is_empty());
}

#[tokio::test]
async fn a_failed_effect_rolls_the_inbox_row_back() {
    let unacceptable = scene(
        InboxDecision::FirstSeen,
        true,
        Some(|| HandlerError::Unacceptable("no".into())),
    );
    let outcome = consume(&unacceptable).await.expect("outcome");
    assert!(matches!(
        outcome,
        ConsumeOutcome::Refused(RefusedRecord::Unacceptable { .. })
    ));
    assert_eq!(unacceptable.log.taken(), ["inbox", "effect", "rollback"]);
    let failed = scene(
        InboxDecision::FirstSeen,
        true,
        Some(|| HandlerError::Failed("down".into())),
    );
    assert!(matches!(
        consume(&failed).await,
        Err(ConsumeError::Handler(_))
    ));
    assert_eq!(failed.log.taken(), ["inbox", "effect", "rollback"]);
}

#[tokio::test]
async fn a_header_that_contradicts_the_document_is_refused_before_anything_opens() {
    let agreeing = TransportHeaders {
        id: Some("event-1"),
        contract_id: Some("sample.thing.happened"),
        payload_version: Some("1"),
    };
    for (headers, name) in [
        (
            TransportHeaders {
                id: Some("event-2"),
                ..agreeing
            },
            "id",
        ),
        (
            TransportHeaders {
                contract_id: Some("sample.thing.ended"),
                ..agreeing
            },
            "contract-id",
        ),
        (
            TransportHeaders {
                payload_version: Some("01"),
                ..agreeing
            },
            "payload-version",
        ),
    ] {
        let scene = scene(InboxDecision::FirstSeen, true, None);
        let outcome = scene
            .consume
            .execute(b"{}", headers)
            .await
            .expect("outcome");
        assert!(
            matches!(
                outcome,
                ConsumeOutcome::Refused(RefusedRecord::HeaderMismatch { header, .. })
                    if header == name
            ),
            "{name}"
        );
        assert!(scene.log.taken().is_empty());
    }
    let scene = scene(InboxDecision::FirstSeen, true, None);
    let outcome = scene
        .consume
        .execute(b"{}", agreeing)
        .await
        .expect("outcome");
    assert!(matches!(outcome, ConsumeOutcome::Applied));
}
