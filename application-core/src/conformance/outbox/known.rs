//! Rows that this process cannot send.
//!
//! Invariant: such a row keeps its state, blocks its scope and is counted under the first reason
//! that applies: contract version, then schema hash, then binding.

use super::fixture::{
    EventSpec, acknowledged_record, append, claimed, event, event_id, known, nothing, request,
};
use super::harness::OutboxHarness;
use crate::contract::ContractKey;
use crate::ports::{ClaimRequest, KnownRecord, UnknownReason};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{ContractId, PayloadVersion};
use std::sync::Arc;
use std::time::Duration;

async fn stays_and_blocks<H: OutboxHarness>(h: H, head: EventSpec, reason: UnknownReason) {
    append(&h, [head, event("next", "a", 2)]).await;
    let before = h.delivery(&event_id("head")).await;
    nothing(&h, &request(1)).await;
    assert_eq!(h.delivery(&event_id("head")).await, before);
    let backlog = h
        .deliveries()
        .count_unknown(&[known()])
        .await
        .expect("count");
    assert!(!backlog.is_empty());
    for other in UnknownReason::ALL {
        let expected = u64::from(other == reason);
        let counted = backlog.by_reason.get(&other).copied().unwrap_or(0);
        assert_eq!(counted, expected, "{other:?}");
    }
}

/// Another contract.
pub async fn an_unknown_contract_is_not_claimed<H: OutboxHarness>(h: H) {
    let head = event("head", "a", 1).contract("conformance.other.kept", 1);
    stays_and_blocks(h, head, UnknownReason::ContractVersion).await;
}

/// A known contract in another version.
pub async fn an_unknown_version_is_not_claimed<H: OutboxHarness>(h: H) {
    let head = event("head", "a", 1).contract(known().contract.contract_id.as_str(), 2);
    stays_and_blocks(h, head, UnknownReason::ContractVersion).await;
}

/// A known version with another schema.
pub async fn an_unknown_schema_is_not_claimed<H: OutboxHarness>(h: H) {
    let head = event("head", "a", 1).payload_schema(b"changed");
    stays_and_blocks(h, head, UnknownReason::SchemaHash).await;
}

/// A known schema under another binding revision.
pub async fn an_unknown_binding_is_not_claimed<H: OutboxHarness>(h: H) {
    let head = event("head", "a", 1).binding("conformance-events-r2");
    stays_and_blocks(h, head, UnknownReason::BindingRevision).await;
}

/// Schema and binding both unknown count once, under the schema.
pub async fn a_row_counts_under_its_first_reason<H: OutboxHarness>(h: H) {
    let head = event("head", "a", 1)
        .payload_schema(b"changed")
        .binding("conformance-events-r2");
    stays_and_blocks(h, head, UnknownReason::SchemaHash).await;
}

/// A passed deadline does not move an unknown row either.
pub async fn an_unknown_row_keeps_its_state_past_its_deadline<H: OutboxHarness>(h: H) {
    let head = event("head", "a", 1)
        .binding("conformance-events-r2")
        .horizon(Duration::from_micros(1));
    append(&h, [head]).await;
    let row = h.delivery(&event_id("head")).await.expect("delivery");
    super::fixture::passed(&h, row.automatic_attempt_deadline).await;
    nothing(&h, &request(1)).await;
    assert_eq!(h.delivery(&event_id("head")).await, Some(row));
}

/// What is known must be known together: no mixing of one record's contract with another's
/// binding.
pub async fn known_records_are_not_mixed<H: OutboxHarness>(h: H) {
    let second = KnownRecord {
        contract: ContractKey {
            contract_id: ContractId::parse("conformance.other.kept").expect("contract"),
            payload_version: PayloadVersion::new(1).expect("version"),
        },
        binding_revision: super::fixture::binding("conformance-events-r2"),
        ..known()
    };
    append(&h, [event("head", "a", 1).binding("conformance-events-r2")]).await;
    let both = [known(), second];
    nothing(
        &h,
        &ClaimRequest {
            known: Arc::from(both.clone()),
            ..request(1)
        },
    )
    .await;
    let backlog = h.deliveries().count_unknown(&both).await.expect("count");
    assert_eq!(
        backlog.by_reason.get(&UnknownReason::BindingRevision),
        Some(&1)
    );
}

/// A process that knows nothing claims nothing and counts everything unresolved.
pub async fn a_process_that_knows_nothing_claims_nothing<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    let claim = claimed(&h, &request(1)).await;
    h.deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await
        .expect("record");
    let none = ClaimRequest {
        known: Arc::from([]),
        ..request(2)
    };
    nothing(&h, &none).await;
    let backlog = h.deliveries().count_unknown(&[]).await.expect("count");
    assert_eq!(
        backlog.by_reason.get(&UnknownReason::ContractVersion),
        Some(&1)
    );
}

/// EXHAUSTED and HOLD are unresolved and counted; a recorded delivery is neither.
pub async fn unresolved_rows_are_counted_and_resolved_ones_are_not<H: OutboxHarness>(h: H) {
    let states = [
        (DeliveryStateName::Exhausted, 1),
        (DeliveryStateName::Hold, 2),
        (DeliveryStateName::Skipped, 2),
        (DeliveryStateName::Compensated, 2),
    ];
    for (number, (state, unresolved)) in states.into_iter().enumerate() {
        let id = format!("e{number}");
        append(&h, [event(&id, &id, 1).binding("conformance-events-r2")]).await;
        h.force_state(&event_id(&id), state).await;
        let backlog = h
            .deliveries()
            .count_unknown(&[known()])
            .await
            .expect("count");
        let counted = backlog.by_reason.get(&UnknownReason::BindingRevision);
        assert_eq!(counted, Some(&unresolved), "{state:?}");
    }
    let all = KnownRecord {
        binding_revision: super::fixture::binding("conformance-events-r2"),
        ..known()
    };
    let backlog = h.deliveries().count_unknown(&[all]).await.expect("count");
    assert!(backlog.is_empty(), "{backlog:?}");
}
