//! Only the head of an ordering scope is eligible.
//!
//! Invariant: order is `(aggregateSequence, eventIndex)` within one partition key; an unresolved
//! head blocks, whatever state it is in (requirement 004 §§17.2, 18.7).

use super::fixture::{
    EventSpec, LONG, acknowledged_record, append, claimed, event, event_id, failure, leased,
    nothing, outcome_of, request, retry_record,
};
use super::harness::OutboxHarness;
use crate::ports::{ClaimRequest, KnownRecord};
use domain_core::delivery::DeliveryStateName;
use domain_core::publication::{PublicationOutcome, RelayDecision, RetryDisposition};
use std::sync::Arc;

fn pair() -> [EventSpec; 2] {
    [event("head", "a", 1), event("next", "a", 2)]
}

async fn claim_head<H: OutboxHarness>(h: &H) -> crate::ports::ClaimedDelivery {
    let head = claimed(h, &request(1)).await;
    assert_eq!(head.attempt.event_id.as_str(), "head");
    head
}

/// A head that this process cannot send stays READY and blocks.
pub async fn a_ready_head_blocks<H: OutboxHarness>(h: H) {
    append(
        &h,
        [event("head", "a", 1).binding("r2"), event("next", "a", 2)],
    )
    .await;
    nothing(&h, &request(1)).await;
    let row = h.delivery(&event_id("head")).await.expect("delivery");
    assert_eq!(row.state, DeliveryStateName::Ready);
}

/// A claimed head blocks.
pub async fn a_claimed_head_blocks<H: OutboxHarness>(h: H) {
    append(&h, pair()).await;
    claim_head(&h).await;
    nothing(&h, &request(2)).await;
}

/// A head that waits for its retry blocks.
pub async fn a_waiting_head_blocks<H: OutboxHarness>(h: H) {
    append(&h, pair()).await;
    let head = claim_head(&h).await;
    let record = retry_record(&head, LONG);
    h.deliveries().record_outcome(&record).await.expect("retry");
    nothing(&h, &request(2)).await;
}

async fn an_ended_head_blocks<H: OutboxHarness>(h: H, decision: RelayDecision) {
    append(&h, pair()).await;
    let head = claim_head(&h).await;
    let outcome = PublicationOutcome::Rejected(failure(RetryDisposition::NoRetry));
    h.deliveries()
        .record_outcome(&outcome_of(&head, outcome, decision))
        .await
        .expect("ended");
    nothing(&h, &request(2)).await;
}

/// EXHAUSTED ends automation, not the question.
pub async fn an_exhausted_head_blocks<H: OutboxHarness>(h: H) {
    an_ended_head_blocks(h, RelayDecision::Exhaust).await;
}

/// So does HOLD.
pub async fn a_held_head_blocks<H: OutboxHarness>(h: H) {
    an_ended_head_blocks(h, RelayDecision::Hold).await;
}

/// A migrated record that nobody verified blocks as well.
pub async fn an_unverified_legacy_head_blocks<H: OutboxHarness>(h: H) {
    append(&h, pair()).await;
    h.force_state(
        &event_id("head"),
        DeliveryStateName::LegacyRecordedUnverified,
    )
    .await;
    nothing(&h, &request(1)).await;
}

/// A recorded head releases its successor, and only that one.
pub async fn a_recorded_head_releases_its_successor<H: OutboxHarness>(h: H) {
    append(&h, pair()).await;
    append(&h, [event("third", "a", 3)]).await;
    let mut number = 0;
    for expected in ["head", "next", "third"] {
        number += 1;
        let head = claimed(&h, &request(number)).await;
        assert_eq!(head.attempt.event_id.as_str(), expected);
        number += 1;
        nothing(&h, &request(number)).await;
        let record = acknowledged_record(&head);
        h.deliveries()
            .record_outcome(&record)
            .await
            .expect("record");
    }
}

/// What an operator disposed of releases the scope.
pub async fn a_disposed_head_releases_its_successor<H: OutboxHarness>(h: H) {
    for (number, state) in (1..).zip([
        DeliveryStateName::Skipped,
        DeliveryStateName::Compensated,
        DeliveryStateName::LegacyAcceptedUnverified,
    ]) {
        let (head, next) = (format!("head{number}"), format!("next{number}"));
        let aggregate = format!("a{number}");
        append(
            &h,
            [event(&head, &aggregate, 1), event(&next, &aggregate, 2)],
        )
        .await;
        h.force_state(&event_id(&head), state).await;
        let claimed = claimed(&h, &request(number)).await;
        assert_eq!(claimed.attempt.event_id.as_str(), next, "{state:?}");
    }
}

/// The same `occurred_at` everywhere, ids and arrival against the order: sequence, then index.
pub async fn sequence_and_index_order_totally<H: OutboxHarness>(h: H) {
    append(
        &h,
        [
            event("a", "x", 10),
            event("b", "x", 2).index(1),
            event("c", "x", 2).index(10),
            event("d", "x", 2).index(2),
            event("e", "x", 1).index(5),
        ],
    )
    .await;
    for (number, expected) in (1..).zip(["e", "b", "d", "c", "a"]) {
        let head = claimed(&h, &request(number)).await;
        assert_eq!(head.attempt.event_id.as_str(), expected);
        let record = acknowledged_record(&head);
        h.deliveries()
            .record_outcome(&record)
            .await
            .expect("record");
    }
}

/// A predecessor counts whatever its contract is.
pub async fn the_order_spans_contracts<H: OutboxHarness>(h: H) {
    let other = event("head", "a", 1).contract("conformance.other.kept", 3);
    append(&h, [other, event("next", "a", 2)]).await;
    nothing(&h, &request(1)).await;
    let mut known = request(2).known.to_vec();
    known.push(KnownRecord {
        contract: crate::contract::ContractKey {
            contract_id: domain_core::identity::ContractId::parse("conformance.other.kept")
                .expect("contract"),
            payload_version: domain_core::identity::PayloadVersion::new(3).expect("version"),
        },
        ..known[0].clone()
    });
    let both = ClaimRequest {
        known: Arc::from(known),
        ..request(2)
    };
    let head = claimed(&h, &both).await;
    assert_eq!(head.attempt.event_id.as_str(), "head");
}

/// A reorder-tolerant event waits for nobody.
pub async fn a_reorder_tolerant_event_never_waits<H: OutboxHarness>(h: H) {
    append(
        &h,
        [
            event("t1", "a", 1).reorder_tolerant(),
            event("t2", "a", 2).reorder_tolerant(),
            event("t3", "a", 3).reorder_tolerant(),
        ],
    )
    .await;
    let mut seen = std::collections::BTreeSet::new();
    for number in 1..=3 {
        let claimed = claimed(&h, &leased(number, LONG)).await;
        seen.insert(claimed.attempt.event_id.as_str().to_owned());
    }
    assert_eq!(seen.len(), 3);
}

/// Blocked scopes do not stand in the way of others, however many blocked rows come first.
pub async fn other_scopes_progress<H: OutboxHarness>(h: H) {
    append(&h, pair()).await;
    append(
        &h,
        (3..40).map(|sequence| event(&format!("b{sequence}"), "a", sequence)),
    )
    .await;
    append(
        &h,
        [
            event("tenant", "a", 2).tenant("acme"),
            event("other", "b", 7),
        ],
    )
    .await;
    let mut seen = Vec::new();
    for number in [1, 2, 3] {
        let claimed = claimed(&h, &request(number)).await;
        seen.push(claimed.attempt.event_id.as_str().to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["head", "other", "tenant"]);
    nothing(&h, &request(4)).await;
}
