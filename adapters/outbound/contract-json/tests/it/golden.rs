//! The golden vectors of the shared contract, reproduced by the shipped code.
//!
//! Invariant: the files are the authority; beside each stands a script that shares no code with
//! this workspace and reproduces it too.

use crate::fixture::{self, Sample, contract_of};
use application_core::event::IntegrationEventDraft;
use application_core::ports::EnvelopeCodec;
use domain_core::hashing::{PartitionKey, envelope_sha256};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, CausationId,
    CorrelationId, EventId, EventIndex, LogicalDestinationId, TenantId, TenantMode, TenantScope,
};
use domain_core::instant::OccurredAt;
use outbound_contract_json::JsonEnvelopeCodec;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared-contract/golden")
}

pub(crate) fn vectors<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let text = std::fs::read_to_string(folder().join(file)).expect(file);
    let vectors: Vec<T> = serde_json::from_str(&text).expect(file);
    assert!(vectors.len() >= 10, "{file} has {} vectors", vectors.len());
    vectors
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyVector {
    name: String,
    tenant_scope: String,
    logical_destination_id: String,
    aggregate_type: String,
    aggregate_id: String,
    partition_key_text: String,
}

#[test]
fn partition_keys_are_the_golden_ones() {
    for vector in vectors::<KeyVector>("partition-key.json") {
        let key = PartitionKey::derive(
            &TenantScope::from_stored(&vector.tenant_scope).expect("scope"),
            &LogicalDestinationId::parse(vector.logical_destination_id).expect("destination"),
            &AggregateIdentity::new(
                AggregateType::parse(vector.aggregate_type).expect("aggregate type"),
                AggregateId::parse(vector.aggregate_id).expect("aggregate id"),
            ),
        );
        assert_eq!(key.as_str(), vector.partition_key_text, "{}", vector.name);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HashVector {
    name: String,
    envelope: String,
    envelope_sha256: String,
}

#[test]
fn envelope_hashes_are_the_golden_ones() {
    for vector in vectors::<HashVector>("envelope-hash.json") {
        assert_eq!(
            envelope_sha256(vector.envelope.as_bytes()).to_hex(),
            vector.envelope_sha256,
            "{}",
            vector.name
        );
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EncodeVector {
    name: String,
    draft: DraftVector,
    envelope: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DraftVector {
    event_id: String,
    contract_id: String,
    payload_version: u32,
    logical_destination: String,
    aggregate: AggregateVector,
    occurred_at: InstantVector,
    correlation_id: String,
    causation_id: Option<String>,
    tenant_id: Option<String>,
    payload: Sample,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AggregateVector {
    r#type: String,
    id: String,
    sequence: i64,
    event_index: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstantVector {
    seconds: i64,
    nanos: u32,
}

impl DraftVector {
    fn codec(&self) -> JsonEnvelopeCodec {
        let contract = contract_of(
            &self.contract_id,
            self.payload_version,
            &self.logical_destination,
            &self.aggregate.r#type,
        );
        let tenants = match self.tenant_id {
            Some(_) => TenantMode::Active,
            None => TenantMode::Disabled,
        };
        JsonEnvelopeCodec::new(fixture::bound(&[contract]), tenants)
    }

    fn draft(self) -> IntegrationEventDraft {
        IntegrationEventDraft {
            event_id: EventId::parse(self.event_id).expect("event id"),
            aggregate: AggregateIdentity::new(
                AggregateType::parse(self.aggregate.r#type).expect("aggregate type"),
                AggregateId::parse(self.aggregate.id).expect("aggregate id"),
            ),
            order: AggregateOrder::new(
                AggregateSequence::new(self.aggregate.sequence).expect("sequence"),
                EventIndex::new(self.aggregate.event_index).expect("index"),
            ),
            occurred_at: OccurredAt::new(self.occurred_at.seconds, self.occurred_at.nanos)
                .expect("instant"),
            correlation_id: CorrelationId::parse(self.correlation_id).expect("correlation id"),
            causation_id: self
                .causation_id
                .map(|id| CausationId::parse(id).expect("causation id")),
            tenant_id: self
                .tenant_id
                .map(|id| TenantId::parse(id).expect("tenant id")),
            trace: None,
            payload: Box::new(self.payload),
        }
    }
}

#[test]
fn encoded_envelopes_are_the_golden_ones_and_read_back() {
    for vector in vectors::<EncodeVector>("envelope-encode.json") {
        let codec = vector.draft.codec();
        let draft = vector.draft.draft();
        let encoded = codec.encode(&draft).expect(&vector.name);
        let text = std::str::from_utf8(encoded.envelope()).expect("UTF-8");
        assert_eq!(text, vector.envelope, "{}", vector.name);
        let decoded = codec.decode(encoded.envelope()).expect(&vector.name);
        assert_eq!(
            decoded.identities.aggregate, draft.aggregate,
            "{}",
            vector.name
        );
        assert_eq!(
            decoded.identities.occurred_at.epoch_millis(),
            draft.occurred_at.epoch_millis(),
            "{}",
            vector.name
        );
    }
}

#[test]
fn independent_scripts_reproduce_the_files() {
    for script in [
        "partition_key.py",
        "envelope_hash.py",
        "envelope_encode.py",
        "envelope_invalid.py",
    ] {
        let output = Command::new("python3")
            .arg(folder().join(script))
            .arg("--check")
            .output()
            .expect("python3 runs the golden scripts");
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_changed_vector_fails_its_script() {
    let copy = tempfile::tempdir().expect("temporary folder");
    for file in ["partition_key.py", "partition-key.json"] {
        std::fs::copy(folder().join(file), copy.path().join(file)).expect(file);
    }
    let golden = copy.path().join("partition-key.json");
    let text = std::fs::read_to_string(&golden).expect("vectors");
    std::fs::write(&golden, text.replacen("worklog-42", "worklog-43", 1)).expect("vectors");
    let output = Command::new("python3")
        .arg(copy.path().join("partition_key.py"))
        .arg("--check")
        .output()
        .expect("python3 runs the golden scripts");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("plain"), "{said}");
}

#[test]
fn the_same_draft_gives_the_same_bytes() {
    let draft = fixture::draft(fixture::sample());
    let codec = fixture::standard();
    let first = codec.encode(&draft).expect("encodes");
    let second = codec.encode(&draft).expect("encodes");
    assert_eq!(first.envelope(), second.envelope());
    assert_eq!(first.envelope_sha256(), second.envelope_sha256());
}
