//! What was appended comes back, to the last byte.
//!
//! Invariant: no value is trimmed, rounded, normalized or written again by the store.

use super::fixture::{EventSpec, append, claimed, event, request};
use super::harness::OutboxHarness;
use crate::event::{StoredOutboxEvent, ValidatedIntegrationEvent};
use crate::ports::{ClaimRequest, KnownRecord};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::PublicationEpoch;
use domain_core::instant::OccurredAt;
use std::sync::Arc;

fn assert_same(stored: &StoredOutboxEvent, appended: &ValidatedIntegrationEvent) {
    assert_eq!(stored.identities, *appended.identities());
    assert_eq!(stored.schemas, *appended.schemas());
    assert_eq!(stored.binding_revision, *appended.binding_revision());
    assert_eq!(stored.partition_key, *appended.partition_key());
    assert_eq!(stored.ordering_required, appended.ordering_required());
    assert_eq!(stored.trace.as_ref(), appended.trace());
    assert!(stored.envelope == appended.envelope(), "bytes differ");
    assert_eq!(stored.envelope_sha256, appended.envelope_sha256());
    assert_eq!(stored.publication_epoch, PublicationEpoch::FIRST);
    assert_eq!(stored.dispatch_authority, DispatchAuthority::PollingV2);
}

async fn round_trip<H: OutboxHarness>(h: &H, spec: EventSpec) {
    let appended = append(h, [spec]).await.remove(0);
    let request = ClaimRequest {
        known: Arc::from([KnownRecord {
            destination: appended.identities().destination.clone(),
            binding_revision: appended.binding_revision().clone(),
            payload_schema: appended.schemas().payload_schema,
            contract: crate::contract::ContractKey {
                contract_id: appended.identities().contract_id.clone(),
                payload_version: appended.identities().payload_version,
            },
        }]),
        ..request(1)
    };
    let claimed = claimed(h, &request).await;
    assert_same(&claimed.event, &appended);
    assert_eq!(claimed.attempt.event_id, appended.identities().event_id);
    for port in h.resources() {
        let resource = port.resource_id().await.expect("resource id");
        assert_eq!(claimed.event.transaction_resource, resource);
    }
}

/// Every optional value present, every text non-trivial.
pub async fn a_full_event_comes_back_unchanged<H: OutboxHarness>(h: H) {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let spec = event(
        "019f.A_b:c-d",
        "작업-42 🛰 '; DROP TABLE x --",
        9_007_199_254_740_991,
    )
    .index(2_147_483_647)
    .tenant("Acme.Corp:eu_1")
    .contract("portfolio.worklog.reserved", 2_147_483_647)
    .destination("portfolio-domain-events")
    .binding("portfolio-domain-events-r1.2")
    .payload_schema(b"another schema")
    .causation("cause:1")
    .trace(parent, Some("vendor=a b,other=1"))
    .reorder_tolerant()
    .envelope(
        "{\"a\":\"é\u{10348}\\u0000\",\n \"b\": 1}  "
            .as_bytes()
            .to_vec(),
    );
    round_trip(&h, spec).await;
}

/// No optional value, the smallest numbers.
pub async fn a_bare_event_comes_back_unchanged<H: OutboxHarness>(h: H) {
    round_trip(&h, event("0", "0", 0).envelope(b"{}".to_vec())).await;
}

/// A trace parent without a trace state.
pub async fn a_trace_without_state_comes_back_unchanged<H: OutboxHarness>(h: H) {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    round_trip(&h, event("e1", "a", 1).trace(parent, None)).await;
}

/// Every text as long as its grammar allows, and a document of 1 MiB that repeats no byte
/// pattern of a text encoding.
pub async fn the_longest_event_comes_back_unchanged<H: OutboxHarness>(h: H) {
    let envelope: Vec<u8> = (0_u32..1_048_576)
        .map(|position| b' ' + u8::try_from(position % 94).expect("small"))
        .collect();
    let contract = format!("a.{}", "b".repeat(94));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let spec = event(&"E".repeat(96), &"가".repeat(85), 1)
        .tenant(&"T".repeat(96))
        .contract(&contract, 1)
        .destination(&"d".repeat(96))
        .binding(&"r".repeat(96))
        .causation(&"C".repeat(128))
        .trace(parent, Some(&"s".repeat(512)))
        .envelope(envelope);
    round_trip(&h, spec).await;
}

/// Instants keep their millisecond, before 1970 and at the ends of the four-digit years too;
/// finer parts are cut towards the past, as the document cuts them.
pub async fn occurred_at_is_cut_to_milliseconds<H: OutboxHarness>(h: H) {
    for (number, (seconds, nanos)) in [
        (1_785_215_430, 123_999_999),
        (1_785_215_430, 999_999_999),
        (-1, 999_500_000),
        (-62_135_596_800, 0),
        (253_402_300_799, 999_000_000),
    ]
    .into_iter()
    .enumerate()
    {
        let exact = OccurredAt::new(seconds, nanos).expect("instant");
        let id = format!("e{number}");
        append(&h, [event(&id, &id, 1).occurred_at(exact)]).await;
        let request = request(u32::try_from(number).expect("small"));
        let claimed = claimed(&h, &request).await;
        assert_eq!(claimed.attempt.event_id.as_str(), id);
        assert_eq!(
            claimed.event.identities.occurred_at,
            OccurredAt::from_epoch_millis(exact.epoch_millis()).expect("instant"),
            "{seconds}.{nanos:09}"
        );
    }
}
