//! Rules that the database itself keeps, whoever writes.
//!
//! Invariant: SQL from outside the ports cannot rewrite an event, an observation, a delivery's
//! immutable copies or the store's identity.

use super::fixture::{acknowledged_record, append, claimed, event, event_id, request};
use super::harness::{GuardedOutboxHarness, Tampered, Tampering};
use domain_core::delivery::DispatchAuthority;

async fn refused<H: GuardedOutboxHarness>(h: &H, tampering: Tampering) {
    let id = event_id("e1");
    let before = (h.delivery(&id).await, h.journal(&id).await);
    let tampered = h.tamper(tampering, &id).await;
    assert_eq!(tampered, Tampered::Refused, "{tampering:?}");
    assert_eq!((h.delivery(&id).await, h.journal(&id).await), before);
}

/// `outbox_event` is INSERT-only.
pub async fn an_event_cannot_be_changed_or_deleted<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    refused(&h, Tampering::ChangeEventMetadata).await;
    refused(&h, Tampering::ChangeEnvelope).await;
    refused(&h, Tampering::DeleteEvent).await;
    assert_eq!(h.query().counts().await.expect("counts").events, 1);
    let claimed = claimed(&h, &request(1)).await;
    let appended = event("e1", "a", 1).seal();
    assert!(claimed.event.envelope == appended.envelope());
    assert_eq!(claimed.event.identities, *appended.identities());
}

/// An event without a delivery cannot be deleted either, so the foreign key is not the guard.
pub async fn an_event_without_a_delivery_cannot_be_deleted<H: GuardedOutboxHarness>(h: H) {
    h.activate_epoch(Some(DispatchAuthority::Cdc)).await;
    append(&h, [event("e1", "a", 1)]).await;
    refused(&h, Tampering::DeleteEvent).await;
    refused(&h, Tampering::DeliveryForCdcEvent).await;
    assert_eq!(
        h.query().counts().await.expect("counts").without_delivery,
        1
    );
}

/// The attempt journal is append-only.
pub async fn an_observation_cannot_be_changed_or_deleted<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &request(1)).await;
    let record = acknowledged_record(&claim);
    h.deliveries()
        .record_outcome(&record)
        .await
        .expect("record");
    refused(&h, Tampering::ChangeObservation).await;
    refused(&h, Tampering::DeleteObservations).await;
}

/// A delivery's copies of its event and its deadline are immutable.
pub async fn a_deliverys_copies_cannot_be_changed<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    refused(&h, Tampering::ChangePartitionKeyCopy).await;
    refused(&h, Tampering::ChangeSequenceCopy).await;
    refused(&h, Tampering::ChangeOrderingCopy).await;
    refused(&h, Tampering::ChangeDeadline).await;
}

/// An event has one CURRENT generation, and none is recorded without an acknowledgement.
pub async fn a_delivery_has_one_current_generation<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    refused(&h, Tampering::SecondCurrentGeneration).await;
    claimed(&h, &request(1)).await;
    refused(&h, Tampering::RecordWithoutAcknowledgement).await;
}

/// One store, one id, one ACTIVE epoch.
pub async fn the_stores_identity_and_epoch_are_single<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let port = h.resources().remove(0);
    let before = port.resource_id().await.expect("id");
    refused(&h, Tampering::ChangeResourceId).await;
    refused(&h, Tampering::SecondResourceId).await;
    refused(&h, Tampering::SecondActiveEpoch).await;
    assert_eq!(port.resource_id().await.expect("id"), before);
}
