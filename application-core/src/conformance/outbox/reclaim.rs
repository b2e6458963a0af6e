//! Taking over from a worker that vanished.
//!
//! Invariant: whoever ends a lapsed claim closes its attempt as INDETERMINATE in the same
//! transaction, and the old token is worth nothing from then on.

use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, claimed_when_due, event, event_id, leased,
    passed, producer,
};
use super::harness::{ObservationType, OutboxHarness};
use crate::ports::{ClaimRequest, RecordOutcome};
use domain_core::delivery::DeliveryStateName;
use domain_core::publication::{AcceptanceCertainty, FailureClass, FailureStage, RetryDisposition};

/// The next worker gets a token of its own and the abandoned attempt gets its outcome.
pub async fn a_lapsed_claim_is_reclaimed_and_its_attempt_closed<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    let next = claimed_when_due(&h, 10, LONG).await;
    assert_eq!(next.attempt.event_id, lost.attempt.event_id);
    assert_ne!(next.attempt.claim_token, lost.attempt.claim_token);
    assert_eq!((next.claim_count, next.attempt_count), (2, 2));
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Claimed);
    assert_eq!(row.claim_owner.as_ref(), Some(&next.owner));
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Indeterminate));
    assert_eq!(row.last_failure_class, Some(FailureClass::AttemptAbandoned));
    let journal = h.journal(&event_id("e1")).await;
    assert_eq!(journal.len(), 3);
    let closed = &journal[1];
    assert_eq!(closed.observation, ObservationType::OutcomeObserved);
    assert_eq!(closed.attempt_id, lost.attempt.attempt_id);
    assert_eq!(closed.claim_token_digest, lost.attempt.claim_token.digest());
    assert_eq!(closed.producer_generation, producer());
    assert_eq!(closed.certainty, Some(AcceptanceCertainty::Indeterminate));
    assert_eq!(
        closed.disposition,
        Some(RetryDisposition::RetryWithinBudget)
    );
    assert_eq!(closed.failure_class, Some(FailureClass::AttemptAbandoned));
    assert_eq!(closed.failure_stage, Some(FailureStage::Deadline));
    assert_eq!(journal[2].observation, ObservationType::AttemptAdmitted);
    assert_eq!(journal[2].attempt_id, next.attempt.attempt_id);
    let sequences: Vec<_> = journal.iter().map(|row| row.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
}

/// The old owner's late outcome touches nothing of the new owner's.
pub async fn the_old_owner_records_nothing_over_the_new_one<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    let next = claimed_when_due(&h, 10, LONG).await;
    let before = h.delivery(&event_id("e1")).await;
    let stale = h
        .deliveries()
        .record_outcome(&acknowledged_record(&lost))
        .await;
    assert!(matches!(stale, Ok(RecordOutcome::Stale)), "{stale:?}");
    assert_eq!(h.delivery(&event_id("e1")).await, before);
    assert_eq!(h.journal(&event_id("e1")).await.len(), 3);
    let recorded = h
        .deliveries()
        .record_outcome(&acknowledged_record(&next))
        .await;
    assert!(matches!(
        recorded,
        Ok(RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded))
    ));
}

/// A worker that reclaims its own row holds it under the new token alone.
pub async fn a_worker_is_stale_under_its_own_older_token<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    passed(&h, lost.claim_until).await;
    let again = ClaimRequest {
        owner: lost.owner.clone(),
        ..leased(2, LONG)
    };
    let next = claimed(&h, &again).await;
    assert_eq!(next.owner, lost.owner);
    let before = h.delivery(&event_id("e1")).await;
    let stale = h
        .deliveries()
        .record_outcome(&acknowledged_record(&lost))
        .await;
    assert!(matches!(stale, Ok(RecordOutcome::Stale)), "{stale:?}");
    assert_eq!(h.delivery(&event_id("e1")).await, before);
    assert_eq!(h.journal(&event_id("e1")).await.len(), 3);
}

/// Each of several vanished workers leaves one closed attempt behind.
pub async fn every_abandoned_attempt_is_closed_once<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    claimed(&h, &leased(1, SHORT)).await;
    for first in [100, 200] {
        claimed_when_due(&h, first, SHORT).await;
    }
    let last = claimed_when_due(&h, 300, LONG).await;
    assert_eq!((last.claim_count, last.attempt_count), (4, 4));
    let journal = h.journal(&event_id("e1")).await;
    let count = |observation| {
        journal
            .iter()
            .filter(|row| row.observation == observation)
            .count()
    };
    assert_eq!(count(ObservationType::AttemptAdmitted), 4);
    assert_eq!(count(ObservationType::OutcomeObserved), 3);
    assert!(
        journal
            .iter()
            .all(|row| row.attempt_id != last.attempt.attempt_id
                || row.observation == ObservationType::AttemptAdmitted)
    );
}
