//! Tx B: one row, one token, one lease, one journalled attempt.
//!
//! Invariant: what the store counted and journalled at the claim is what the worker was told.

use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, claimed_when_due, event, event_id, known,
    leased, nothing, passed, producer, request, retry_record,
};
use super::harness::{ObservationType, OutboxHarness};
use crate::ports::RecordOutcome;
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::DeliveryGeneration;

/// An empty store has nothing to claim.
pub async fn an_empty_store_has_nothing<H: OutboxHarness>(h: H) {
    nothing(&h, &request(1)).await;
}

/// Claim and attempt are counted by the claim itself, so that a crash loop spends its budget.
pub async fn a_claim_counts_its_attempt<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let before = h.database_now().await;
    let claimed = claimed(&h, &request(1)).await;
    let after = h.database_now().await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Claimed);
    assert_eq!((row.claim_count, row.attempt_count), (1, 1));
    assert_eq!((claimed.claim_count, claimed.attempt_count), (1, 1));
    assert_eq!(row.claim_owner, Some(request(1).owner));
    assert_eq!(claimed.owner, request(1).owner);
    assert_eq!(row.claim_until, Some(claimed.claim_until));
    assert!((before.plus(LONG)..=after.plus(LONG)).contains(&claimed.claim_until));
    let first = row.first_attempt_at.expect("first attempt");
    assert!((before..=after).contains(&first));
}

/// `ATTEMPT_ADMITTED` is journalled with the token's digest and nothing about an outcome.
pub async fn a_claim_journals_its_attempt<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let before = h.database_now().await;
    let claimed = claimed(&h, &request(1)).await;
    let after = h.database_now().await;
    let journal = h.journal(&event_id("e1")).await;
    assert_eq!(journal.len(), 1);
    let admitted = &journal[0];
    assert_eq!(admitted.observation, ObservationType::AttemptAdmitted);
    assert_eq!(admitted.generation, DeliveryGeneration::FIRST);
    assert_eq!(claimed.attempt.generation, DeliveryGeneration::FIRST);
    assert_eq!(admitted.attempt_id, request(1).attempt_id);
    assert_eq!(claimed.attempt.attempt_id, request(1).attempt_id);
    assert_eq!(admitted.claim_token_digest, request(1).token.digest());
    assert_eq!(claimed.attempt.claim_token, request(1).token);
    assert_eq!(admitted.producer_generation, producer());
    assert_eq!(admitted.binding_revision, known().binding_revision);
    assert!((before..=after).contains(&admitted.observed_at));
    assert_eq!((admitted.certainty, admitted.disposition), (None, None));
    assert_eq!(
        (admitted.failure_class, admitted.failure_stage),
        (None, None)
    );
    assert_eq!(admitted.record_reference, None);
}

/// A live claim is nobody else's.
pub async fn a_live_claim_is_not_claimed_again<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    claimed(&h, &leased(1, LONG)).await;
    nothing(&h, &request(2)).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!((row.claim_count, row.attempt_count), (1, 1));
    assert_eq!(row.claim_owner, Some(request(1).owner));
}

/// One call claims one row, however many are eligible.
pub async fn a_claim_takes_one_row<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    claimed(&h, &request(1)).await;
    let counts = h.query().counts().await.expect("counts");
    assert_eq!(counts.by_state.get(&DeliveryStateName::Claimed), Some(&1));
    assert_eq!(counts.by_state.get(&DeliveryStateName::Ready), Some(&1));
}

/// One pass of the scan claims every eligible head: none starves behind the others, and a scope
/// whose head was just recorded waits until the others had their turn.
pub async fn every_head_has_its_turn_in_one_pass<H: OutboxHarness>(h: H) {
    let scopes = ["c", "a", "b", "d"];
    for sequence in 1..=3 {
        let of_scope = |scope: &&str| event(&format!("{scope}{sequence}"), scope, sequence);
        append(&h, scopes.iter().map(of_scope)).await;
        // Turns are told apart by the store's clock, which may be a coarse one.
        passed(&h, h.database_now().await).await;
    }
    let mut number = 0;
    for sequence in 1..=3 {
        let mut turn = Vec::new();
        for _ in scopes {
            number += 1;
            let claimed = claimed(&h, &request(number)).await;
            let record = acknowledged_record(&claimed);
            h.deliveries()
                .record_outcome(&record)
                .await
                .expect("recorded");
            turn.push(claimed.attempt.event_id.as_str().to_owned());
        }
        turn.sort();
        let expected = ["a", "b", "c", "d"].map(|scope| format!("{scope}{sequence}"));
        assert_eq!(turn, expected);
    }
    nothing(&h, &request(number + 1)).await;
}

/// A retry is not claimed before it is due.
pub async fn a_retry_is_not_claimed_before_it_is_due<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let first = claimed(&h, &request(1)).await;
    let recorded = h
        .deliveries()
        .record_outcome(&retry_record(&first, LONG))
        .await;
    assert!(matches!(
        recorded,
        Ok(RecordOutcome::Recorded(DeliveryStateName::RetryWait))
    ));
    nothing(&h, &request(2)).await;
}

/// A due retry is claimed, with a new attempt.
pub async fn a_due_retry_is_claimed<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let first = claimed(&h, &request(1)).await;
    h.deliveries()
        .record_outcome(&retry_record(&first, SHORT))
        .await
        .expect("recorded");
    let due = h.delivery(&event_id("e1")).await.expect("delivery");
    let due = due.next_attempt_at.expect("due time");
    let second = claimed_when_due(&h, 10, LONG).await;
    assert!(h.database_now().await >= due);
    assert_eq!((second.claim_count, second.attempt_count), (2, 2));
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Claimed);
    assert_eq!(row.next_attempt_at, None);
    let kinds: Vec<_> = h
        .journal(&event_id("e1"))
        .await
        .iter()
        .map(|row| (row.sequence, row.observation))
        .collect();
    assert_eq!(
        kinds,
        [
            (1, ObservationType::AttemptAdmitted),
            (2, ObservationType::OutcomeObserved),
            (3, ObservationType::AttemptAdmitted),
        ]
    );
}
