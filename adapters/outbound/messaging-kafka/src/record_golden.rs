//! Holds the record to the golden file that an independent script reproduces.
//!
//! Invariant: every vector is compared whole, and what a vector leaves out of an event has no
//! influence on its record.

use super::*;
use application_core::event::{EventIdentities, SchemaIdentity, TraceContext};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ContractId,
    CorrelationId, DestinationBindingRevision, EventId, EventIndex, LogicalDestinationId,
    PayloadVersion, PublicationEpoch, TenantScope, TransactionResourceId,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("../../../../shared-contract/golden/kafka-record.json");

fn stored(event: &Value) -> StoredOutboxEvent {
    let text = |name: &str| event[name].as_str().expect(name);
    let tenant_scope = TenantScope::from_stored(text("tenantScope")).unwrap();
    let destination = LogicalDestinationId::parse(text("logicalDestinationId")).unwrap();
    let aggregate = AggregateIdentity::new(
        AggregateType::parse(text("aggregateType")).unwrap(),
        AggregateId::parse(text("aggregateId")).unwrap(),
    );
    let at = &event["occurredAt"];
    let nanos = u32::try_from(at["nanos"].as_u64().unwrap()).unwrap();
    let zero = Sha256Digest::from_bytes([0; 32]);
    StoredOutboxEvent {
        partition_key: PartitionKey::derive(&tenant_scope, &destination, &aggregate),
        identities: EventIdentities {
            event_id: EventId::parse(text("eventId")).unwrap(),
            contract_id: ContractId::parse(text("contractId")).unwrap(),
            payload_version: PayloadVersion::new(event["payloadVersion"].as_i64().unwrap())
                .unwrap(),
            destination,
            tenant_scope,
            aggregate,
            order: AggregateOrder::new(
                AggregateSequence::new(1).unwrap(),
                EventIndex::new(0).unwrap(),
            ),
            occurred_at: OccurredAt::new(at["seconds"].as_i64().unwrap(), nanos).unwrap(),
            correlation_id: CorrelationId::parse("c-1").unwrap(),
            causation_id: None,
        },
        schemas: SchemaIdentity {
            envelope_schema: zero,
            payload_schema: zero,
            schema_set: zero,
            catalog_revision: zero,
        },
        binding_revision: DestinationBindingRevision::parse("r1").unwrap(),
        ordering_required: true,
        trace: event.get("traceparent").map(|parent| {
            let state = event.get("tracestate").and_then(Value::as_str);
            TraceContext::parse(parent.as_str().unwrap(), state).unwrap()
        }),
        envelope: text("envelope").as_bytes().to_vec(),
        envelope_sha256: zero,
        publication_epoch: PublicationEpoch::FIRST,
        dispatch_authority: DispatchAuthority::PollingV2,
        transaction_resource: TransactionResourceId::parse("t-1").unwrap(),
        created_at: DatabaseInstant::from_epoch_micros(1),
    }
}

/// Any event, for tests of what comes after compilation.
pub(crate) fn first_event() -> StoredOutboxEvent {
    let vectors: Vec<Value> = serde_json::from_str(GOLDEN).expect("golden file");
    stored(&vectors[0]["event"])
}

fn as_json(record: &KafkaRecord) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|header| json!([header.name, text(&header.value)]))
        .collect();
    json!({
        "key": text(&record.key),
        "value": text(&record.value),
        "timestamp": record.timestamp_millis,
        "headers": headers,
    })
}

#[test]
fn every_golden_record_is_reproduced() {
    let vectors: Vec<Value> = serde_json::from_str(GOLDEN).expect("golden file");
    assert!(vectors.len() >= 10);
    for vector in &vectors {
        let record = compile_record(&stored(&vector["event"]));
        assert_eq!(as_json(&record), vector["record"], "{}", vector["name"]);
        assert_eq!(record.key.len(), 64, "{}", vector["name"]);
        let overhead = record.wire_bytes() - record.value.len();
        assert!(
            overhead <= KafkaRecord::MAXIMUM_OVERHEAD as usize,
            "{}: {overhead}",
            vector["name"]
        );
    }
}

#[test]
fn a_record_never_prints_its_bytes() {
    let vectors: Vec<Value> = serde_json::from_str(GOLDEN).expect("golden file");
    let shown = format!("{:?}", compile_record(&stored(&vectors[0]["event"])));
    assert!(
        !shown.contains("hours") && !shown.contains("104"),
        "{shown}"
    );
}
