//! Reads for people and summaries.
//!
//! Invariant: what is counted is what is stored, from one snapshot.

use super::fixture::{
    LONG, acknowledged_record, append, claimed, claimed_when_due, event, event_id, request,
    retry_record,
};
use super::harness::OutboxHarness;
use crate::ports::OutboxCounts;
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::DeliveryGeneration;
use domain_core::publication::{AcceptanceCertainty, FailureClass};
use std::time::Duration;

/// An empty store counts nothing.
pub async fn an_empty_store_counts_nothing<H: OutboxHarness>(h: H) {
    let counts = h.query().counts().await.expect("counts");
    assert_eq!(counts, OutboxCounts::default());
    let page = h.query().deliveries_after(None, 10).await.expect("page");
    assert_eq!(page, []);
}

/// Events, states, retried deliveries and events without a delivery.
pub async fn counts_say_what_is_stored<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1), event("e2", "b", 1)]).await;
    let first = claimed(&h, &request(1)).await;
    let retry = retry_record(&first, Duration::from_micros(1));
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let mut recorded = Vec::new();
    for first in [10, 2000] {
        let claim = claimed_when_due(&h, first, LONG).await;
        let record = acknowledged_record(&claim);
        h.deliveries()
            .record_outcome(&record)
            .await
            .expect("record");
        recorded.push(claim.attempt.event_id);
    }
    append(&h, [event("e3", "c", 1), event("e4", "d", 1)]).await;
    claimed(&h, &request(5000)).await;
    h.activate_epoch(Some(DispatchAuthority::Cdc)).await;
    append(&h, [event("e5", "e", 1)]).await;
    let counts = h.query().counts().await.expect("counts");
    assert_eq!((counts.events, counts.without_delivery), (5, 1));
    assert_eq!(counts.retried, 1);
    let state = |name| counts.by_state.get(&name).copied().unwrap_or(0);
    assert_eq!(state(DeliveryStateName::DeliveryRecorded), 2);
    assert_eq!(state(DeliveryStateName::Claimed), 1);
    assert_eq!(state(DeliveryStateName::Ready), 1);
    assert_eq!(counts.by_state.values().sum::<u64>(), 4);
}

/// Pages go on where the last one ended, in the byte order of event ids.
pub async fn pages_follow_each_other<H: OutboxHarness>(h: H) {
    let ids = ["A", "Z", "a", "a-1", "a.1", "b"];
    for id in ["b", "a.1", "Z", "a", "A", "a-1"] {
        append(&h, [event(id, id, 1)]).await;
    }
    let mut seen = Vec::new();
    loop {
        let after = seen.last().cloned();
        let page = h
            .query()
            .deliveries_after(after.as_ref(), 2)
            .await
            .expect("page");
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|summary| summary.event_id));
    }
    let seen: Vec<_> = seen.iter().map(|id| id.as_str()).collect();
    assert_eq!(seen, ids);
}

/// One delivery, with its counters, its last failure and its reference; one that is not there.
pub async fn a_summary_says_where_a_delivery_stands<H: OutboxHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let first = claimed(&h, &request(1)).await;
    let retry = retry_record(&first, Duration::from_micros(1));
    h.deliveries().record_outcome(&retry).await.expect("retry");
    let waiting = h.query().find_delivery(&event_id("e1")).await;
    let waiting = waiting.expect("read").expect("delivery");
    assert_eq!(waiting.state, DeliveryStateName::RetryWait);
    assert_eq!(waiting.record_reference, None);
    let second = claimed_when_due(&h, 10, LONG).await;
    h.deliveries()
        .record_outcome(&acknowledged_record(&second))
        .await
        .expect("record");
    let found = h.query().find_delivery(&event_id("e1")).await;
    let found = found.expect("read").expect("delivery");
    assert_eq!(found.event_id.as_str(), "e1");
    assert_eq!(found.contract_id, first.event.identities.contract_id);
    assert_eq!(found.envelope_sha256, first.event.envelope_sha256);
    assert_eq!(found.generation, DeliveryGeneration::FIRST);
    assert_eq!(found.state, DeliveryStateName::DeliveryRecorded);
    assert_eq!((found.claim_count, found.attempt_count), (2, 2));
    assert_eq!(found.last_certainty, Some(AcceptanceCertainty::Accepted));
    assert_eq!(
        found.last_failure_class,
        Some(FailureClass::BrokerUnavailable)
    );
    assert_eq!(found.record_reference.as_deref(), Some("conformance/0@17"));
    let page = h.query().deliveries_after(None, 1000).await.expect("page");
    assert_eq!(page, [found]);
    let nobody = h.query().find_delivery(&event_id("nobody")).await;
    assert_eq!(nobody.expect("read"), None);
}
