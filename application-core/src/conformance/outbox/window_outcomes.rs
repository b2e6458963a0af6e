//! The outcomes of a window.
//!
//! Invariant: each record has its own compare-and-set and its own answer, in the order of the
//! records (requirement 004 §18.6).

use super::WindowHarness;
use super::fixture::{
    LONG, SHORT, acknowledged_record, append, claimed, event, event_id, failure, known, leased,
    outcome_of, passed, request, retry_record,
};
use super::window::{claimed_scopes, record, scopes, state};
use crate::ports::RecordOutcome;
use domain_core::delivery::DeliveryStateName;
use domain_core::publication::{PublicationOutcome, RelayDecision, RetryDisposition};

/// Each record has its own decision, and the answers come in the order of the records.
pub async fn outcomes_are_answered_in_the_order_given<H: WindowHarness>(h: H) {
    let claims = claimed_scopes(&h, 4).await;
    let rejected = || PublicationOutcome::Rejected(failure(RetryDisposition::NoRetry));
    let records = [
        outcome_of(&claims[2], rejected(), RelayDecision::Exhaust),
        acknowledged_record(&claims[0]),
        outcome_of(&claims[3], rejected(), RelayDecision::Hold),
        retry_record(&claims[1], LONG),
    ];
    let states = [
        DeliveryStateName::Exhausted,
        DeliveryStateName::DeliveryRecorded,
        DeliveryStateName::Hold,
        DeliveryStateName::RetryWait,
    ];
    assert_eq!(
        record(&h, &records).await,
        states.map(RecordOutcome::Recorded)
    );
    for (record, expected) in records.iter().zip(states) {
        let id = &record.attempt.event_id;
        let row = h.delivery(id).await.expect("delivery");
        assert_eq!(row.state, expected);
        let journal = h.journal(id).await;
        assert_eq!(journal.len(), 2);
        assert_eq!(journal[1].attempt_id, record.attempt.attempt_id);
        assert_eq!(journal[1].certainty, Some(record.outcome.certainty()));
    }
}

/// Lapsed, foreign and already recorded claims among good ones: each is Stale for itself.
pub async fn a_stale_record_touches_no_other<H: WindowHarness>(h: H) {
    let claims = claimed_scopes(&h, 4).await;
    append(&h, [event("e0", "scope-0", 1)]).await;
    let lapsed = claimed(&h, &leased(1_000, SHORT)).await;
    passed(&h, lapsed.claim_until).await;
    record(&h, &[acknowledged_record(&claims[0])]).await;
    let mut foreign = acknowledged_record(&claims[1]);
    foreign.attempt.claim_token = request(999).token;
    let mut nowhere = acknowledged_record(&claims[1]);
    nowhere.attempt.event_id = event_id("nowhere");
    let records = [
        acknowledged_record(&claims[0]),
        acknowledged_record(&claims[2]),
        foreign,
        nowhere,
        acknowledged_record(&lapsed),
        retry_record(&claims[3], LONG),
    ];
    let recorded = RecordOutcome::Recorded;
    assert_eq!(
        record(&h, &records).await,
        [
            RecordOutcome::Stale,
            recorded(DeliveryStateName::DeliveryRecorded),
            RecordOutcome::Stale,
            RecordOutcome::Stale,
            RecordOutcome::Stale,
            recorded(DeliveryStateName::RetryWait),
        ]
    );
    assert_eq!(state(&h, &claims[1]).await, DeliveryStateName::Claimed);
    assert_eq!(state(&h, &lapsed).await, DeliveryStateName::Claimed);
    for (claim, rows) in [(&claims[0], 2), (&claims[1], 1), (&lapsed, 1)] {
        let journal = h.journal(&claim.attempt.event_id).await;
        assert_eq!(journal.len(), rows);
    }
}

/// A record that the store refuses is held alone; its neighbours are recorded.
pub async fn a_refused_record_is_held_and_touches_no_other<H: WindowHarness>(h: H) {
    let claims = claimed_scopes(&h, 3).await;
    let open = PublicationOutcome::Indeterminate(failure(RetryDisposition::NoRetry));
    let records = [
        acknowledged_record(&claims[0]),
        outcome_of(&claims[1], open, RelayDecision::Record),
        acknowledged_record(&claims[2]),
    ];
    let recorded = RecordOutcome::Recorded(DeliveryStateName::DeliveryRecorded);
    let held = RecordOutcome::Recorded(DeliveryStateName::Hold);
    assert_eq!(record(&h, &records).await, [recorded, held, recorded]);
    assert_eq!(state(&h, &claims[1]).await, DeliveryStateName::Hold);
    assert_eq!(h.journal(&claims[1].attempt.event_id).await.len(), 2);
}

/// No records, no answers.
pub async fn an_empty_window_records_nothing<H: WindowHarness>(h: H) {
    append(&h, scopes(1)).await;
    assert_eq!(record(&h, &[]).await, []);
    let backlog = h.deliveries().count_unknown(&[known()]).await;
    assert!(backlog.expect("backlog").is_empty());
}
