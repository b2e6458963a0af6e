//! One contract with a field of every kind, and the deployment it runs in.
//!
//! Invariant: the fixture compiles as it is; a test changes one thing and sees what it causes.

use application_core::contract::{
    BindingSet, ContractDescriptor, ContractKey, DestinationBinding, FieldKind,
    IntegrationEventContractContribution, OrderingRequirement, PartitionKeyPolicy, PayloadField,
    SchemaResource, Sensitivity, VersionMatrix,
};
use application_core::event::{IntegrationEventDraft, IntegrationPayload, PayloadType};
use application_core::ports::{DecodeError, EncodeError, EnvelopeCodec, PayloadRejection};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ContractId,
    CorrelationId, DestinationBindingRevision, EventId, EventIndex, LogicalDestinationId,
    PayloadVersion, TenantMode,
};
use domain_core::instant::OccurredAt;
use outbound_contract_json::{
    BoundCatalog, CompiledCatalog, ContractCompiler, Deployment, JsonEnvelopeCodec, ProviderBounds,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) const CONTRACT: &str = "golden.sample.recorded";
pub(crate) const DESTINATION: &str = "golden-sample-events";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) count: i64,
    pub(crate) done: bool,
    pub(crate) level: Level,
    pub(crate) tags: Vec<String>,
    pub(crate) author: Author,
    pub(crate) items: Vec<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Level {
    Low,
    High,
    /// Not among the contract's values.
    Absurd,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Author {
    pub(crate) name: String,
    pub(crate) team: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) label: String,
    pub(crate) amount: i64,
}

pub(crate) fn sample() -> Sample {
    Sample {
        title: "A title".to_owned(),
        note: String::new(),
        count: 1,
        done: false,
        level: Level::Low,
        tags: vec!["a".to_owned(), "b".to_owned()],
        author: Author {
            name: "Ada".to_owned(),
            team: "one".to_owned(),
        },
        items: vec![Item {
            label: "x".to_owned(),
            amount: 2,
        }],
    }
}

pub(crate) fn fields() -> Vec<PayloadField> {
    let levels = FieldKind::Enum(vec!["LOW".to_owned(), "HIGH".to_owned()]);
    [
        ("title", FieldKind::String),
        ("note", FieldKind::String),
        ("count", FieldKind::Integer),
        ("done", FieldKind::Boolean),
        ("level", levels),
        ("tags", FieldKind::List),
        ("tags[]", FieldKind::String),
        ("author", FieldKind::Record),
        ("author.name", FieldKind::String),
        ("author.team", FieldKind::String),
        ("items", FieldKind::List),
        ("items[]", FieldKind::Record),
        ("items[].label", FieldKind::String),
        ("items[].amount", FieldKind::Integer),
    ]
    .into_iter()
    .map(|(path, kind)| PayloadField {
        path: path.to_owned(),
        kind,
    })
    .collect()
}

pub(crate) fn schema_id(contract: &str, version: u32) -> String {
    format!("https://schemas.example/{contract}/v{version}.schema.json")
}

pub(crate) fn schema(contract: &str, version: u32) -> Value {
    let text = |maximum: u32| json!({"type": "string", "minLength": 0, "maxLength": maximum});
    let integer = json!({
        "type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_id(contract, version),
        "type": "object",
        "properties": {
            "title": text(80),
            "note": text(80),
            "count": integer,
            "done": {"type": "boolean"},
            "level": {"type": "string", "enum": ["LOW", "HIGH"]},
            "tags": {"type": "array", "maxItems": 40, "items": text(16)},
            "author": {"$ref": "#/$defs/author"},
            "items": {"type": "array", "maxItems": 40, "items": {
                "type": "object",
                "properties": {"label": text(16), "amount": integer},
                "required": ["label", "amount"],
                "unevaluatedProperties": false
            }}
        },
        "required": ["title", "note", "count", "done", "level", "tags", "author", "items"],
        "additionalProperties": false,
        "$defs": {"author": {
            "type": "object",
            "properties": {"name": text(40), "team": text(40)},
            "required": ["name", "team"],
            "additionalProperties": false
        }}
    })
}

/// A contract version that a test may bend before it is compiled.
#[derive(Debug, Clone)]
pub(crate) struct Contract {
    pub(crate) descriptor: ContractDescriptor,
    pub(crate) schema: Vec<u8>,
    pub(crate) payload_type: PayloadType,
}

impl IntegrationEventContractContribution for Contract {
    fn descriptor(&self) -> ContractDescriptor {
        self.descriptor.clone()
    }

    fn payload_type(&self) -> PayloadType {
        self.payload_type
    }

    fn payload_schema(&self) -> &[u8] {
        &self.schema
    }
}

impl Contract {
    /// The same contract with another schema, pinned anew.
    pub(crate) fn with_schema(mut self, schema: &Value) -> Self {
        self.schema = schema.to_string().into_bytes();
        self.descriptor.payload_schema.sha256 = Sha256Digest::of(&self.schema);
        self
    }

    pub(crate) fn with_type<T: 'static>(mut self) -> Self {
        self.payload_type = PayloadType::of::<T>();
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut ContractDescriptor)) -> Self {
        change(&mut self.descriptor);
        self
    }
}

pub(crate) fn version(number: i64) -> PayloadVersion {
    PayloadVersion::new(number).expect("version")
}

pub(crate) fn contract_of(id: &str, number: u32, destination: &str, aggregate: &str) -> Contract {
    let document = schema(id, number);
    Contract {
        descriptor: ContractDescriptor {
            contract_id: ContractId::parse(id).expect("contract id"),
            payload_version: version(number.into()),
            owner_module: "golden".to_owned(),
            destination: LogicalDestinationId::parse(destination).expect("destination"),
            aggregate_type: AggregateType::parse(aggregate).expect("aggregate type"),
            payload_schema: SchemaResource {
                id: schema_id(id, number),
                sha256: Sha256Digest::of(b""),
            },
            serializer: ContractDescriptor::SERIALIZER.to_owned(),
            ordering: OrderingRequirement::AggregateSequence,
            partition_key: PartitionKeyPolicy::AggregateScope,
            maximum_payload_bytes: 4096,
            maximum_envelope_bytes: 8192,
            sensitivity: Sensitivity::Internal,
            versions: VersionMatrix {
                producer: vec![version(number.into())],
                consumer: vec![version(number.into())],
            },
            requeue_horizon: Duration::from_secs(7 * 86_400),
            fields: fields(),
        },
        schema: Vec::new(),
        payload_type: PayloadType::of::<Sample>(),
    }
    .with_schema(&document)
}

pub(crate) fn contract() -> Contract {
    contract_of(CONTRACT, 1, DESTINATION, "sample")
}

pub(crate) fn key(id: &str, number: i64) -> ContractKey {
    ContractKey {
        contract_id: ContractId::parse(id).expect("contract id"),
        payload_version: version(number),
    }
}

pub(crate) fn binding(destination: &str, revision: &str, current: bool) -> DestinationBinding {
    DestinationBinding {
        destination: LogicalDestinationId::parse(destination).expect("destination"),
        revision: DestinationBindingRevision::parse(revision).expect("revision"),
        maximum_record_bytes: 65_536,
        maximum_envelope_bytes: 16_384,
        current,
    }
}

pub(crate) fn provider() -> ProviderBounds {
    ProviderBounds {
        card: "kafka-rdkafka-acknowledged-idempotent.v1".to_owned(),
        maximum_envelope_bytes: 1_000_000,
        earliest_epoch_millis: None,
        reason: "the topic's records are bounded".to_owned(),
    }
}

pub(crate) fn deployment(bindings: Vec<DestinationBinding>) -> Deployment {
    Deployment {
        bindings: BindingSet::build(bindings).expect("bindings"),
        provider: provider(),
        overrides: Vec::new(),
    }
}

pub(crate) fn compile(contracts: &[Contract]) -> CompiledCatalog {
    contracts
        .iter()
        .fold(ContractCompiler::new(), |compiler, one| {
            compiler.contribution(one)
        })
        .compile()
        .expect("the contracts compile")
}

pub(crate) fn bound(contracts: &[Contract]) -> Arc<BoundCatalog> {
    let mut destinations: Vec<_> = contracts
        .iter()
        .map(|one| one.descriptor.destination.as_str().to_owned())
        .collect();
    destinations.sort();
    destinations.dedup();
    let bindings = destinations
        .iter()
        .enumerate()
        .map(|(index, destination)| binding(destination, &format!("r{index}"), true))
        .collect();
    Arc::new(
        compile(contracts)
            .bind(deployment(bindings))
            .expect("the deployment fits"),
    )
}

pub(crate) fn codec(contracts: &[Contract]) -> JsonEnvelopeCodec {
    JsonEnvelopeCodec::new(bound(contracts), TenantMode::Disabled)
}

pub(crate) fn draft(payload: impl IntegrationPayload) -> IntegrationEventDraft {
    IntegrationEventDraft {
        event_id: EventId::parse("019a0000-0000-7000-8000-000000000001").expect("event id"),
        aggregate: AggregateIdentity::new(
            AggregateType::parse("sample").expect("aggregate type"),
            AggregateId::parse("sample-42").expect("aggregate id"),
        ),
        order: AggregateOrder::new(
            AggregateSequence::new(17).expect("sequence"),
            EventIndex::new(0).expect("index"),
        ),
        occurred_at: OccurredAt::from_epoch_millis(1_785_215_430_123).expect("instant"),
        correlation_id: CorrelationId::parse("corr-1").expect("correlation id"),
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new(payload),
    }
}

/// The codec of [`contract`] alone.
pub(crate) fn standard() -> &'static JsonEnvelopeCodec {
    static STANDARD: LazyLock<JsonEnvelopeCodec> = LazyLock::new(|| codec(&[contract()]));
    &STANDARD
}

/// A document that [`standard`] accepts.
pub(crate) fn document() -> String {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let encoded = standard()
            .encode(&draft(sample()))
            .expect("the sample encodes");
        String::from_utf8(encoded.envelope().to_vec()).expect("UTF-8")
    });
    DOCUMENT.clone()
}

/// [`document`] with one text, which it has once, in another's place.
pub(crate) fn changed(from: &str, to: &str) -> String {
    let document = document();
    assert_eq!(document.matches(from).count(), 1, "{from} in {document}");
    document.replacen(from, to, 1)
}

pub(crate) fn rejected(error: EncodeError) -> PayloadRejection {
    match error {
        EncodeError::Rejected(rejection) => rejection,
        other => panic!("expected a rejection, got {other:?}"),
    }
}

/// Place and rule of a refusal by the payload's schema on decode.
pub(crate) fn payload_refusal(error: DecodeError) -> (String, String) {
    match error {
        DecodeError::Payload(rejection) => (rejection.pointer, rejection.rule.to_string()),
        other => panic!("expected a payload refusal, got {other:?}"),
    }
}
