//! Late acknowledgements.
//!
//! Invariant: each is journalled once under its own attempt, and no delivery changes.

use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, claimed_when_due, event, event_id, leased,
    producer, reference, stranger,
};
use super::harness::{ObservationType, OutboxHarness};
use crate::ports::{
    ClaimedDelivery, LateObservationId, LatePublicationObservation, LateWriteReport,
};
use domain_core::identity::PublicationAttemptId;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{AcceptanceCertainty, RetryDisposition};

fn late(number: u64, claimed: &ClaimedDelivery) -> LatePublicationObservation {
    LatePublicationObservation {
        id: LateObservationId(number),
        attempt: claimed.attempt.clone(),
        producer_generation: producer(),
        binding_revision: claimed.event.binding_revision.clone(),
        certainty: AcceptanceCertainty::Accepted,
        observed_at: DatabaseInstant::from_epoch_micros(1_785_215_440_123_456),
        record_reference: reference("conformance/0@99"),
    }
}

async fn write<H: OutboxHarness>(
    h: &H,
    observations: &[LatePublicationObservation],
) -> LateWriteReport {
    h.observations()
        .append_late_observations(observations)
        .await
        .expect("written")
}

fn report(appended: usize, duplicates: usize, orphaned: usize) -> LateWriteReport {
    LateWriteReport {
        appended,
        duplicates,
        orphaned,
    }
}

/// The stale owner's acknowledgement is journalled under its own attempt id, and the new owner's
/// claim stays.
pub async fn a_late_acknowledgement_is_journalled_and_changes_nothing<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    let next = claimed_when_due(&h, 10, LONG).await;
    let before = h.delivery(&event_id("e1")).await;
    let observation = late(1, &lost);
    assert_eq!(
        write(&h, std::slice::from_ref(&observation)).await,
        report(1, 0, 0)
    );
    assert_eq!(h.delivery(&event_id("e1")).await, before);
    let journal = h.journal(&event_id("e1")).await;
    assert_eq!(journal.len(), 4);
    let row = &journal[3];
    assert_eq!(row.sequence, 4);
    assert_eq!(row.observation, ObservationType::LateAckObserved);
    assert_eq!(row.attempt_id, lost.attempt.attempt_id);
    assert_eq!(row.claim_token_digest, lost.attempt.claim_token.digest());
    assert_eq!(row.producer_generation, producer());
    assert_eq!(row.binding_revision, observation.binding_revision);
    assert_eq!(row.observed_at, observation.observed_at);
    assert_eq!(row.certainty, Some(AcceptanceCertainty::Accepted));
    assert_eq!((row.failure_class, row.failure_stage), (None, None));
    assert_eq!(row.record_reference.as_deref(), Some("conformance/0@99"));
    h.deliveries()
        .record_outcome(&acknowledged_record(&next))
        .await
        .expect("the new owner goes on");
}

/// Written again, alone or within one batch, it is absorbed.
pub async fn a_repeated_observation_is_absorbed<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &leased(1, LONG)).await;
    let batch = [late(1, &claim), late(2, &claim)];
    assert_eq!(write(&h, &batch).await, report(1, 1, 0));
    assert_eq!(write(&h, &batch[..1]).await, report(0, 1, 0));
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
}

/// One whose delivery is not there is dropped, counted, and spoils nothing else.
pub async fn an_orphaned_observation_is_dropped_and_counted<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &leased(1, LONG)).await;
    let mut orphan = late(1, &claim);
    orphan.attempt = stranger("nobody");
    let mut other_generation = late(2, &claim);
    other_generation.attempt.generation =
        domain_core::identity::DeliveryGeneration::new(7).expect("generation");
    let batch = [orphan, other_generation, late(3, &claim)];
    assert_eq!(write(&h, &batch).await, report(1, 0, 2));
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
    assert_eq!(h.journal(&event_id("nobody")).await, []);
}

/// A late misroute is journalled as one, with what an operator may do about it.
pub async fn a_late_misroute_is_journalled_as_one<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    let mut batch = Vec::new();
    for (number, certainty) in [
        (1, AcceptanceCertainty::Accepted),
        (2, AcceptanceCertainty::AcceptedMismatch),
    ] {
        let claim = claimed(&h, &leased(number, LONG)).await;
        batch.push(LatePublicationObservation {
            certainty,
            ..late(number.into(), &claim)
        });
    }
    let before = h.delivery(&event_id("e2")).await;
    assert_eq!(write(&h, &batch).await, report(2, 0, 0));
    for (id, certainty, disposition) in [
        (
            "e1",
            AcceptanceCertainty::Accepted,
            RetryDisposition::NoRetry,
        ),
        (
            "e2",
            AcceptanceCertainty::AcceptedMismatch,
            RetryDisposition::OperatorHold,
        ),
    ] {
        let row = h.journal(&event_id(id)).await.pop().expect("observed");
        assert_eq!(row.observation, ObservationType::LateAckObserved);
        assert_eq!(row.certainty, Some(certainty), "{id}");
        assert_eq!(row.disposition, Some(disposition), "{id}");
        assert_eq!((row.failure_class, row.failure_stage), (None, None));
    }
    assert_eq!(h.delivery(&event_id("e2")).await, before);
}

/// One whose attempt was never admitted, or under another token, is dropped and counted.
pub async fn only_an_admitted_attempt_is_observed_late<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    let claim = claimed(&h, &leased(1, LONG)).await;
    let mut never_admitted = late(1, &claim);
    never_admitted.attempt = stranger("e1");
    let mut never_tried = late(2, &claim);
    never_tried.attempt.event_id = event_id("e2");
    let mut other_token = late(3, &claim);
    other_token.attempt.claim_token = stranger("e1").claim_token;
    let batch = [never_admitted, never_tried, other_token, late(4, &claim)];
    assert_eq!(write(&h, &batch).await, report(1, 0, 3));
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
    assert_eq!(h.journal(&event_id("e2")).await, []);
}

/// Several attempts of one event each keep their own.
pub async fn attempts_keep_their_own_observations<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let first = claimed(&h, &leased(1, SHORT)).await;
    let second = claimed_when_due(&h, 10, LONG).await;
    let batch = [late(1, &first), late(2, &second)];
    assert_eq!(write(&h, &batch).await, report(2, 0, 0));
    let attempts: Vec<PublicationAttemptId> = h
        .journal(&event_id("e1"))
        .await
        .into_iter()
        .filter(|row| row.observation == ObservationType::LateAckObserved)
        .map(|row| row.attempt_id)
        .collect();
    assert_eq!(
        attempts,
        [first.attempt.attempt_id, second.attempt.attempt_id]
    );
}

/// An empty batch is no work.
pub async fn an_empty_batch_writes_nothing<H: OutboxHarness>(h: H) {
    assert_eq!(write(&h, &[]).await, report(0, 0, 0));
}
