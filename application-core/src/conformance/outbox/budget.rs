//! Budgets that end in Tx B, without a send.
//!
//! Invariant: a row whose budget is spent goes to `EXHAUSTED` under the claim's own fence, with no
//! `ATTEMPT_ADMITTED` and no attempt counted; what may have been sent before stays visible as
//! INDETERMINATE (requirement 004 §18.9).

use super::fixture::{
    LONG, SHORT, append, claim, claimed, claimed_when_due, event, event_id, failure, leased,
    nothing, outcome_of, request, retry_record, until,
};
use super::harness::{DeliveryRow, ObservationType, OutboxHarness};
use crate::ports::{BudgetSpentReason, ClaimOutcome, ClaimRequest};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::DeliveryGeneration;
use domain_core::publication::{
    AcceptanceCertainty, FailureClass, FailureStage, PublicationOutcome, RelayDecision,
    RetryDisposition,
};
use std::time::Duration;

fn spent(outcome: &ClaimOutcome) -> Option<BudgetSpentReason> {
    match outcome {
        ClaimOutcome::BudgetSpent {
            event_id,
            generation,
            reason,
        } if event_id.as_str() == "e1" && *generation == DeliveryGeneration::FIRST => Some(*reason),
        _ => None,
    }
}

/// Claims until the budget of `e1` is found spent.
async fn spent_when_due<H: OutboxHarness>(h: &H, request: &ClaimRequest) -> BudgetSpentReason {
    until(h, "a spent budget", async || {
        match claim(h, request).await {
            ClaimOutcome::Nothing => None,
            other => Some(spent(&other).expect("spent")),
        }
    })
    .await
}

/// A row that was never tried and whose deadline has passed is not sent any more.
pub async fn a_passed_deadline_ends_an_untried_row<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1).horizon(Duration::from_micros(1))]).await;
    let reason = spent_when_due(&h, &request(1)).await;
    assert_eq!(reason, BudgetSpentReason::Deadline);
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!((row.claim_count, row.attempt_count), (0, 0));
    assert_eq!((row.last_certainty, row.first_attempt_at), (None, None));
    out_of_time(&row);
    assert_eq!(h.journal(&event_id("e1")).await, []);
    nothing(&h, &request(2)).await;
}

/// Every ended deadline is told by one class and stage; the journal says how its attempts ended.
fn out_of_time(row: &DeliveryRow) {
    assert_eq!(row.last_failure_class, Some(FailureClass::DeadlineExceeded));
    assert_eq!(row.last_failure_stage, Some(FailureStage::Deadline));
}

/// Less than one whole attempt before the deadline is no time to send.
pub async fn no_whole_attempt_before_the_deadline_ends_a_row<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1).horizon(LONG)]).await;
    let outcome = claim(
        &h,
        &ClaimRequest {
            attempt_budget: LONG + Duration::from_millis(1),
            ..request(1)
        },
    )
    .await;
    assert_eq!(spent(&outcome), Some(BudgetSpentReason::Deadline));
    assert_eq!(h.journal(&event_id("e1")).await, []);
    out_of_time(&h.delivery(&event_id("e1")).await.expect("delivery"));
}

/// A due retry past its deadline ends; what is known about acceptance stays what it was.
pub async fn a_passed_deadline_ends_a_due_retry<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1).horizon(LONG)]).await;
    let first = claimed(&h, &request(1)).await;
    let retry = retry_record(&first, Duration::from_micros(1));
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let too_long = ClaimRequest {
        attempt_budget: LONG,
        ..request(2)
    };
    let reason = spent_when_due(&h, &too_long).await;
    assert_eq!(reason, BudgetSpentReason::Deadline);
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!((row.claim_count, row.attempt_count), (1, 1));
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::NotAccepted));
    out_of_time(&row);
    assert_eq!((row.next_attempt_at, row.claim_until), (None, None));
    assert_eq!(h.journal(&event_id("e1")).await.len(), 2);
}

/// A lapsed claim past its deadline ends, and its attempt is closed as INDETERMINATE.
pub async fn a_passed_deadline_ends_a_lapsed_claim<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1).horizon(LONG)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    let too_long = ClaimRequest {
        attempt_budget: LONG,
        ..request(2)
    };
    let reason = spent_when_due(&h, &too_long).await;
    assert_eq!(reason, BudgetSpentReason::Deadline);
    out_of_time(&abandoned_and_exhausted(&h, &lost).await);
}

/// A lapsed claim that used the last attempt ends, and its attempt is closed as INDETERMINATE.
pub async fn used_attempts_end_a_lapsed_claim<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let lost = claimed(&h, &leased(1, SHORT)).await;
    let last = ClaimRequest {
        maximum_attempts: 1,
        ..request(2)
    };
    let reason = spent_when_due(&h, &last).await;
    assert_eq!(reason, BudgetSpentReason::Attempts);
    let row = abandoned_and_exhausted(&h, &lost).await;
    assert_eq!(row.last_failure_class, Some(FailureClass::AttemptAbandoned));
    assert_eq!(row.last_failure_stage, Some(FailureStage::Deadline));
}

async fn abandoned_and_exhausted<H: OutboxHarness>(
    h: &H,
    lost: &crate::ports::ClaimedDelivery,
) -> DeliveryRow {
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!((row.claim_count, row.attempt_count), (1, 1));
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Indeterminate));
    assert_eq!((&row.claim_owner, row.claim_until), (&None, None));
    let journal = h.journal(&event_id("e1")).await;
    assert_eq!(journal.len(), 2);
    assert_eq!(journal[1].observation, ObservationType::OutcomeObserved);
    assert_eq!(journal[1].attempt_id, lost.attempt.attempt_id);
    assert_eq!(
        journal[1].failure_class,
        Some(FailureClass::AttemptAbandoned)
    );
    assert_eq!(
        journal[1].certainty,
        Some(AcceptanceCertainty::Indeterminate)
    );
    nothing(h, &request(99)).await;
    row
}

/// An attempt that its own worker saw end INDETERMINATE may have been sent as well, whatever a
/// later attempt saw: the exhausted generation says so, and the journal keeps both answers.
pub async fn an_indeterminate_attempt_keeps_the_certainty_open<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1).horizon(LONG)]).await;
    let first = claimed(&h, &request(1)).await;
    let open = PublicationOutcome::Indeterminate(failure(RetryDisposition::RetryWithinBudget));
    let delay = Duration::from_micros(1);
    let open = outcome_of(&first, open, RelayDecision::Retry { delay });
    h.deliveries().record_outcome(&open).await.expect("open");
    let second = claimed_when_due(&h, 10, LONG).await;
    let retry = retry_record(&second, delay);
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::NotAccepted));
    let too_long = ClaimRequest {
        attempt_budget: LONG,
        ..request(2)
    };
    spent_when_due(&h, &too_long).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Indeterminate));
    out_of_time(&row);
    let outcomes: Vec<_> = h.journal(&event_id("e1")).await;
    let outcomes: Vec<_> = outcomes.iter().filter_map(|row| row.certainty).collect();
    assert_eq!(
        outcomes,
        [
            AcceptanceCertainty::Indeterminate,
            AcceptanceCertainty::NotAccepted
        ]
    );
}

/// An attempt that was abandoned may have been sent, whatever a later attempt saw.
pub async fn an_abandoned_attempt_keeps_the_certainty_open<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1).horizon(LONG)]).await;
    claimed(&h, &leased(1, SHORT)).await;
    let second = claimed_when_due(&h, 10, LONG).await;
    let retry = retry_record(&second, Duration::from_micros(1));
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::NotAccepted));
    let too_long = ClaimRequest {
        attempt_budget: LONG,
        ..request(2)
    };
    spent_when_due(&h, &too_long).await;
    let row = h.delivery(&event_id("e1")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Exhausted);
    assert_eq!(row.last_certainty, Some(AcceptanceCertainty::Indeterminate));
}

/// A due retry is claimed although its attempts are used up: only a provider at fault leaves such
/// a row behind, and that exhausts no record (requirement 004 §17.4).
pub async fn a_provider_at_fault_exhausts_no_retry<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let single = ClaimRequest {
        maximum_attempts: 1,
        ..request(1)
    };
    let first = claimed(&h, &single).await;
    let stopped = PublicationOutcome::Rejected(failure(RetryDisposition::StopProvider));
    let retry = RelayDecision::Retry {
        delay: Duration::from_micros(1),
    };
    h.deliveries()
        .record_outcome(&outcome_of(&first, stopped, retry))
        .await
        .expect("retry");
    let mut number = 1;
    let second = until(&h, "the retry", async || {
        number += 1;
        let again = ClaimRequest {
            maximum_attempts: 1,
            ..request(number)
        };
        match claim(&h, &again).await {
            ClaimOutcome::Claimed(claimed) => Some(claimed),
            ClaimOutcome::Nothing => None,
            other => panic!("unexpected: {other:?}"),
        }
    })
    .await;
    assert_eq!((second.claim_count, second.attempt_count), (2, 2));
}

/// A spent head is one transition of its own; its successor stays blocked.
pub async fn a_spent_head_still_blocks<H: OutboxHarness>(h: H) {
    append(
        &h,
        [
            event("e1", "a", 1).horizon(Duration::from_micros(1)),
            event("e2", "a", 2),
        ],
    )
    .await;
    spent_when_due(&h, &request(1)).await;
    nothing(&h, &request(2)).await;
    let row = h.delivery(&event_id("e2")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Ready);
}
