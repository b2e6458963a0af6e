//! Appending beside business rows.
//!
//! Invariant: event, delivery and business rows commit together or not at all, and the two
//! identities of an event are each there once.

use super::fixture::{
    append, claimed, draft, event, event_id, known, nothing, request, try_append,
};
use super::harness::OutboxHarness;
use super::transaction::CaseError;
use crate::event::{EventIdentities, IntegrationEventDraft, ValidatedIntegrationEvent};
use crate::ports::{
    AppendError, ClaimOutcome, DecodeError, DecodedEnvelope, EncodeError, EnvelopeCodec,
    OutboxAppendPort, OutboxCounts, PayloadRejection, RejectionRule, TransactionError,
    TransactionPort,
};
use crate::usecase::IntegrationEventAppender;
use domain_core::delivery::{DeliveryStateName, DispatchAuthority, PublicationWindow};
use domain_core::identity::PublicationEpoch;
use std::sync::Arc;
use std::time::Duration;

/// Event, READY delivery and business row are there after the commit.
pub async fn an_append_commits_with_business_rows<H: OutboxHarness>(h: H) {
    let outbox = h.outbox();
    let sealed = event("e1", "a", 1).seal();
    let receipt = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "kept")
                    .await
                    .map_err(CaseError::Business)?;
                let receipt = outbox.append(tx, &sealed).await;
                receipt.map_err(|error| CaseError::Business(Box::new(error)))
            })
        })
        .await
        .expect("committed");
    assert_eq!(receipt.authority, DispatchAuthority::PollingV2);
    assert_eq!(h.business_rows().await, ["kept"]);
    let delivery = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(delivery.state, DeliveryStateName::Ready);
    assert_eq!((delivery.claim_count, delivery.attempt_count), (0, 0));
    assert_eq!(delivery.first_attempt_at, None);
    assert_eq!(delivery.last_certainty, None);
}

/// Neither of them is there after a rollback, and the identities are free again.
pub async fn an_append_rolls_back_with_business_rows<H: OutboxHarness>(h: H) {
    let outbox = h.outbox();
    let sealed = event("e1", "a", 1).seal();
    let again = sealed.clone();
    let result = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                outbox.append(tx, &sealed).await.expect("append");
                Err::<(), _>(CaseError::OnPurpose)
            })
        })
        .await;
    assert!(matches!(result, Err(TransactionError::Work(_))));
    assert_eq!(h.business_rows().await, Vec::<String>::new());
    assert_eq!(
        h.query().counts().await.expect("counts"),
        OutboxCounts::default()
    );
    try_append(&h, again)
        .await
        .expect("the identities are free");
}

/// A caller that swallows the error and returns normally still loses its business row.
pub async fn a_swallowed_append_error_cannot_commit<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let outbox = h.outbox();
    let twice = event("e1", "a", 2).seal();
    let result = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                assert!(outbox.append(tx, &twice).await.is_err());
                Ok::<_, CaseError>(())
            })
        })
        .await;
    assert!(
        matches!(result, Err(TransactionError::RollbackOnly)),
        "{result:?}"
    );
    assert_eq!(h.business_rows().await, Vec::<String>::new());
}

/// A codec whose every payload is larger than its contract allows.
struct RefusingCodec;

impl EnvelopeCodec for RefusingCodec {
    fn encode(&self, _: &IntegrationEventDraft) -> Result<ValidatedIntegrationEvent, EncodeError> {
        Err(EncodeError::Rejected(PayloadRejection {
            contract: known().contract,
            pointer: String::new(),
            rule: RejectionRule::Bound {
                rule: "maximum payload bytes".into(),
                bound: "1".into(),
            },
        }))
    }

    fn read_identities(&self, _: &[u8]) -> Result<EventIdentities, DecodeError> {
        Err(DecodeError::UnknownContract(known().contract))
    }

    fn decode(&self, _: &[u8]) -> Result<DecodedEnvelope, DecodeError> {
        Err(DecodeError::UnknownContract(known().contract))
    }
}

/// What refuses an append.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    DuplicateEvent,
    OrderTaken,
    Encode,
}

/// Whatever refuses an append, and whether its caller passes the error on or swallows it: neither
/// a business row nor an event of the transaction is in the database, and the next one is free.
pub async fn a_refused_append_leaves_no_business_row<H: OutboxHarness>(h: H) {
    for refusal in [
        Refusal::DuplicateEvent,
        Refusal::OrderTaken,
        Refusal::Encode,
    ] {
        for swallowed in [false, true] {
            let result = refused_transaction(&h, refusal, swallowed).await;
            match result {
                Err(TransactionError::Work(CaseError::OnPurpose)) if !swallowed => {}
                Err(TransactionError::RollbackOnly) if swallowed => {}
                other => panic!("{refusal:?}, swallowed {swallowed}: {other:?}"),
            }
            assert_eq!(h.business_rows().await, Vec::<String>::new(), "{refusal:?}");
            let counts = h.query().counts().await.expect("counts");
            assert_eq!(counts, OutboxCounts::default(), "{refusal:?}");
        }
    }
    append(&h, [event("e1", "a", 1)]).await;
    assert_eq!(h.query().counts().await.expect("counts").events, 1);
}

/// Inserts a business row and an event, then what is refused.
async fn refused_transaction<H: OutboxHarness>(
    h: &H,
    refusal: Refusal,
    swallowed: bool,
) -> Result<(), TransactionError<CaseError>> {
    let outbox = h.outbox();
    let appender = IntegrationEventAppender::new(Arc::new(RefusingCodec), h.outbox());
    let first = event("e1", "a", 1).seal();
    h.transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                outbox.append(tx, &first).await.expect("the first event");
                let refused = match refusal {
                    Refusal::DuplicateEvent => {
                        let again = event("e1", "b", 1).seal();
                        outbox.append(tx, &again).await.is_err()
                    }
                    Refusal::OrderTaken => {
                        let taken = event("e2", "a", 1).seal();
                        outbox.append(tx, &taken).await.is_err()
                    }
                    Refusal::Encode => appender.append(tx, &draft("e2")).await.is_err(),
                };
                assert!(refused, "{refusal:?}");
                if swallowed {
                    Ok(())
                } else {
                    Err(CaseError::OnPurpose)
                }
            })
        })
        .await
}

/// An event id is there once, with the same document or another.
pub async fn an_event_id_is_appended_once<H: OutboxHarness>(h: H) {
    let first = append(&h, [event("e1", "a", 1)]).await;
    for again in [first[0].clone(), event("e1", "b", 9).seal()] {
        let result = try_append(&h, again).await;
        assert!(
            matches!(
                &result,
                Err(TransactionError::Work(AppendError::DuplicateEvent { event_id }))
                    if event_id.as_str() == "e1"
            ),
            "{result:?}"
        );
    }
    assert_eq!(h.query().counts().await.expect("counts").events, 1);
}

/// Two events of one transaction cannot share an id either.
pub async fn an_event_id_is_appended_once_within_a_transaction<H: OutboxHarness>(h: H) {
    let outbox = h.outbox();
    let (first, second) = (event("e1", "a", 1).seal(), event("e1", "a", 2).seal());
    let result = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                outbox.append(tx, &first).await?;
                outbox.append(tx, &second).await
            })
        })
        .await;
    assert!(
        matches!(
            result,
            Err(TransactionError::Work(AppendError::DuplicateEvent { .. }))
        ),
        "{result:?}"
    );
    assert_eq!(h.query().counts().await.expect("counts").events, 0);
}

/// A place in an aggregate's order is taken once.
pub async fn a_place_in_the_order_is_taken_once<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let result = try_append(&h, event("e2", "a", 1).seal()).await;
    assert!(
        matches!(
            &result,
            Err(TransactionError::Work(AppendError::OrderTaken { event_id }))
                if event_id.as_str() == "e2"
        ),
        "{result:?}"
    );
    append(&h, [event("e2", "a", 1).index(1)]).await;
}

/// The order belongs to tenant scope, destination and aggregate (requirement 004 §11.5).
pub async fn tenants_and_destinations_have_orders_of_their_own<H: OutboxHarness>(h: H) {
    let events = append(
        &h,
        [
            event("e1", "a", 1),
            event("e2", "a", 1).tenant("acme"),
            event("e3", "a", 1).tenant("other"),
            event("e4", "a", 1).destination("elsewhere"),
            event("e5", "b", 1),
        ],
    )
    .await;
    let keys: std::collections::BTreeSet<_> =
        events.iter().map(|event| event.partition_key()).collect();
    assert_eq!(keys.len(), 5);
    let result = try_append(&h, event("e6", "a", 1).tenant("acme").seal()).await;
    assert!(
        matches!(
            result,
            Err(TransactionError::Work(AppendError::OrderTaken { .. }))
        ),
        "{result:?}"
    );
}

/// The deadline is the sooner of the configured age and the event's requeue horizon, from the
/// event's own creation, exactly (requirement 004 §18.9).
pub async fn the_deadline_is_the_sooner_of_age_and_horizon<H: OutboxHarness>(h: H) {
    let (short, long) = (Duration::from_secs(90), H::MAXIMUM_AGE * 2);
    let before = h.database_now().await;
    append(
        &h,
        [
            event("short", "a", 1).horizon(short),
            event("long", "b", 1).horizon(long),
        ],
    )
    .await;
    let after = h.database_now().await;
    for (id, horizon) in [("short", short), ("long", long)] {
        let row = h.delivery(&event_id(id)).await.expect("delivery");
        assert!((before..=after).contains(&row.created_at), "{id}");
        let window = PublicationWindow::new(H::MAXIMUM_AGE, horizon).expect("window");
        assert_eq!(
            row.automatic_attempt_deadline,
            window.deadline(row.created_at, row.created_at),
            "{id}"
        );
    }
    let claimed = claimed(&h, &request(1)).await;
    let id = &claimed.attempt.event_id;
    let row = h.delivery(id).await.expect("delivery");
    assert_eq!(claimed.event.created_at, row.created_at);
}

/// Without an ACTIVE epoch nothing is inserted and the transaction cannot commit.
pub async fn without_an_active_epoch_nothing_commits<H: OutboxHarness>(h: H) {
    h.activate_epoch(None).await;
    let outbox = h.outbox();
    let sealed = event("e1", "a", 1).seal();
    let result = h
        .transactions()
        .in_write(move |tx| {
            Box::pin(async move {
                H::insert_business_row(tx, "lost")
                    .await
                    .map_err(CaseError::Business)?;
                let refused = outbox.append(tx, &sealed).await;
                assert!(
                    matches!(refused, Err(AppendError::NoActiveEpoch)),
                    "{refused:?}"
                );
                Ok::<_, CaseError>(())
            })
        })
        .await;
    assert!(matches!(result, Err(TransactionError::RollbackOnly)));
    assert_eq!(h.business_rows().await, Vec::<String>::new());
    assert_eq!(h.query().counts().await.expect("counts").events, 0);
}

/// The epoch is read in the append's own transaction; only a polling epoch makes a delivery, and
/// its claims take no event of another authority.
pub async fn only_a_polling_epoch_makes_a_delivery<H: OutboxHarness>(h: H) {
    let first = try_append(&h, event("e1", "a", 1).seal())
        .await
        .expect("polling");
    assert_eq!(first.epoch, PublicationEpoch::FIRST);
    h.activate_epoch(Some(DispatchAuthority::Cdc)).await;
    let second = try_append(&h, event("e2", "b", 1).seal())
        .await
        .expect("change data capture");
    assert_eq!(second.authority, DispatchAuthority::Cdc);
    assert!(second.epoch > first.epoch);
    assert_eq!(h.delivery(&event_id("e2")).await, None);
    nothing(&h, &request(1)).await;
    h.activate_epoch(Some(DispatchAuthority::PollingV2)).await;
    let claim = h.deliveries().claim_next(&request(2)).await.expect("claim");
    assert!(
        matches!(&claim, ClaimOutcome::Claimed(claimed)
            if claimed.attempt.event_id.as_str() == "e1"
                && claimed.event.publication_epoch == first.epoch),
        "{claim:?}"
    );
    let counts = h.query().counts().await.expect("counts");
    assert_eq!((counts.events, counts.without_delivery), (2, 1));
}
