//! Rules that the database itself keeps, whoever writes.
//!
//! Invariant: SQL from outside the ports cannot rewrite an event, an observation, a delivery's
//! immutable copies or the store's identity.

use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, event, event_id, known, leased, passed,
    request,
};
use super::harness::{Damage, GuardedOutboxHarness, Tampered, Tampering};
use crate::ports::{ClaimError, UnknownReason};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};

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
    refused(&h, Tampering::ChangeEpochAuthority).await;
    assert_eq!(port.resource_id().await.expect("id"), before);
}

/// SQL of anyone's moves a delivery along the protocol's transitions, one version at a time.
pub async fn a_delivery_moves_along_its_transitions<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    refused(&h, Tampering::SkipReady).await;
    refused(&h, Tampering::SkipRowVersion).await;
    h.force_state(&event_id("e1"), DeliveryStateName::Exhausted)
        .await;
    refused(&h, Tampering::ReviveExhausted).await;
}

/// Due heads that this process knows and cannot read.
async fn unreadable<H: GuardedOutboxHarness>(h: &H) -> u64 {
    let counted = h.deliveries().count_unknown(&[known()]).await;
    let counted = counted.expect("count").by_reason;
    assert!(
        counted
            .keys()
            .all(|reason| *reason == UnknownReason::Unreadable),
        "{counted:?}"
    );
    counted
        .get(&UnknownReason::Unreadable)
        .copied()
        .unwrap_or(0)
}

/// A head that cannot be read stops its own scope and no other; it is counted while others go on,
/// and reported by the claim when nothing else is left.
pub async fn an_unreadable_head_is_passed_over_and_counted<H: GuardedOutboxHarness>(h: H) {
    append(
        &h,
        [
            event("bad-1", "a", 1),
            event("bad-2", "b", 2),
            event("behind", "a", 2),
            event("good", "c", 1),
        ],
    )
    .await;
    assert_eq!(unreadable(&h).await, 0);
    for id in ["bad-1", "bad-2"] {
        h.damage(Damage::AggregateId, &event_id(id)).await;
    }
    assert_eq!(unreadable(&h).await, 2);
    let claim = claimed(&h, &request(1)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "good");
    h.deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await
        .expect("the readable one goes on");
    for number in 2..5 {
        let reported = h.deliveries().claim_next(&request(number)).await;
        assert!(
            matches!(reported, Err(ClaimError::Corrupt { .. })),
            "{reported:?}"
        );
    }
    assert_eq!(unreadable(&h).await, 2);
    for id in ["bad-1", "bad-2", "behind"] {
        let row = h.delivery(&event_id(id)).await.expect("delivery");
        assert_eq!((row.state, row.claim_count), (DeliveryStateName::Ready, 0));
        assert_eq!(h.journal(&event_id(id)).await, [], "{id}");
    }
}

/// A lapsed claim without its attempt cannot be closed: it is passed over, counted and reported.
pub async fn a_claim_without_its_attempt_is_passed_over_and_counted<H: GuardedOutboxHarness>(h: H) {
    append(&h, [event("bad", "a", 1), event("good", "b", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    assert_eq!(lost.attempt.event_id.as_str(), "bad");
    h.damage(Damage::JournalLost, &event_id("bad")).await;
    passed(&h, lost.claim_until).await;
    let before = h.delivery(&event_id("bad")).await;
    assert_eq!(unreadable(&h).await, 1);
    let claim = claimed(&h, &leased(2, LONG)).await;
    assert_eq!(claim.attempt.event_id.as_str(), "good");
    assert_eq!(unreadable(&h).await, 1);
    let reported = h.deliveries().claim_next(&request(3)).await;
    assert!(
        matches!(reported, Err(ClaimError::Corrupt { .. })),
        "{reported:?}"
    );
    assert_eq!(h.delivery(&event_id("bad")).await, before);
    assert_eq!(h.journal(&event_id("bad")).await, []);
}
