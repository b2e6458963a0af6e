//! A codec for tests: the sample's real schemas and byte bounds, around a plain JSON envelope.
//!
//! Invariant: it refuses what the contract refuses and names contract, place and rule; the bytes it
//! writes are nobody's wire format.

use application_core::contract::{ContractCatalog, ContractDescriptor};
use application_core::event::{
    EventIdentities, IntegrationEventDraft, SchemaIdentity, ValidatedIntegrationEvent,
    ValidatedParts,
};
use application_core::ports::{
    DecodeError, DecodedEnvelope, EncodeError, EnvelopeCodec, PayloadRejection, RejectionRule,
};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, ContractId,
    CorrelationId, DestinationBindingRevision, EventId, EventIndex, LogicalDestinationId,
    PayloadVersion, TenantScope,
};
use domain_core::instant::OccurredAt;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};

/// Encodes and decodes with the sample's contracts.
pub(crate) struct TestCodec {
    catalog: ContractCatalog,
}

impl TestCodec {
    pub(crate) fn new() -> Self {
        let contributions = portfolio::contracts::contributions();
        let catalog = ContractCatalog::build(
            contributions
                .iter()
                .map(|one| (one.descriptor(), Some(one.payload_type()))),
            Sha256Digest::of(b"no envelope schema"),
        );
        Self {
            catalog: catalog.expect("a catalog"),
        }
    }
}

/// The validator of one contract, as strict as the product's: formats asserted, nothing fetched.
pub(crate) fn validator(schema: &[u8]) -> jsonschema::Validator {
    let schema: Value = serde_json::from_slice(schema).expect("JSON");
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema")
}

/// Place and rule of the first finding.
pub(crate) fn judge(
    validator: &jsonschema::Validator,
    payload: &Value,
) -> Option<(String, String)> {
    validator.validate(payload).err().map(|error| {
        let bound = match error.kind() {
            ValidationErrorKind::MaxLength { limit }
            | ValidationErrorKind::MinLength { limit }
            | ValidationErrorKind::MaxItems { limit } => limit.to_string(),
            ValidationErrorKind::Maximum { limit } | ValidationErrorKind::Minimum { limit } => {
                limit.to_string()
            }
            ValidationErrorKind::Format { format } => format.clone(),
            ValidationErrorKind::Pattern { pattern } => pattern.clone(),
            _ => "broken".to_owned(),
        };
        let place = error.instance_path().as_str().to_owned();
        (place, format!("{} is {bound}", error.kind().keyword()))
    })
}

impl EnvelopeCodec for TestCodec {
    fn encode(
        &self,
        draft: &IntegrationEventDraft,
    ) -> Result<ValidatedIntegrationEvent, EncodeError> {
        let payload_type = draft.payload.payload_type();
        let contract = self
            .catalog
            .find_by_type(payload_type)
            .expect("the sample's payloads are registered");
        let mut payload = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut payload);
        erased_serde::serialize(draft.payload.as_ref(), &mut serializer).expect("serializes");
        refuse_payload(contract, &payload)?;
        let identities = identities(draft, contract);
        let envelope = envelope(&identities, &payload);
        Ok(ValidatedIntegrationEvent::seal(ValidatedParts {
            identities,
            schemas: SchemaIdentity {
                envelope_schema: Sha256Digest::of(b"no envelope schema"),
                payload_schema: contract.payload_schema.sha256,
                schema_set: self.catalog.schema_set(),
                catalog_revision: self.catalog.revision(),
            },
            binding_revision: DestinationBindingRevision::parse("test.1").expect("a revision"),
            ordering_required: true,
            requeue_horizon: contract.requeue_horizon,
            trace: draft.trace.clone(),
            envelope,
        }))
    }

    fn read_identities(&self, envelope: &[u8]) -> Result<EventIdentities, DecodeError> {
        self.decode(envelope).map(|decoded| decoded.identities)
    }

    fn decode(&self, envelope: &[u8]) -> Result<DecodedEnvelope, DecodeError> {
        let document: Value = serde_json::from_slice(envelope).expect("written by this codec");
        let text = |pointer: &str| {
            let found = document.pointer(pointer).and_then(Value::as_str);
            found.expect("written by this codec").to_owned()
        };
        let number = |pointer: &str| {
            let found = document.pointer(pointer).and_then(Value::as_i64);
            found.expect("written by this codec")
        };
        let identities = EventIdentities {
            event_id: EventId::parse(text("/eventId")).expect("an id"),
            contract_id: ContractId::parse(text("/contractId")).expect("an id"),
            payload_version: PayloadVersion::new(1).expect("a version"),
            destination: LogicalDestinationId::parse(text("/destination")).expect("an id"),
            tenant_scope: TenantScope::system(),
            aggregate: AggregateIdentity::new(
                AggregateType::parse(text("/aggregateType")).expect("a type"),
                AggregateId::parse(text("/aggregateId")).expect("an id"),
            ),
            order: AggregateOrder::new(
                AggregateSequence::new(number("/sequence")).expect("a sequence"),
                EventIndex::new(0).expect("an index"),
            ),
            occurred_at: OccurredAt::from_epoch_millis(number("/occurredAt")).expect("in range"),
            correlation_id: CorrelationId::parse(text("/correlationId")).expect("an id"),
            causation_id: None,
        };
        Ok(DecodedEnvelope {
            identities,
            payload: document["payload"].to_string().into_bytes(),
        })
    }
}

fn refuse_payload(contract: &ContractDescriptor, payload: &[u8]) -> Result<(), EncodeError> {
    let rejected = |pointer: String, rule: &str, bound: &str| {
        EncodeError::Rejected(PayloadRejection {
            contract: contract.key(),
            pointer,
            rule: RejectionRule::Bound {
                rule: rule.to_owned(),
                bound: bound.to_owned(),
            },
        })
    };
    let maximum = contract.maximum_payload_bytes;
    if payload.len() > maximum as usize {
        let bound = maximum.to_string();
        return Err(rejected(String::new(), "maximum payload bytes", &bound));
    }
    let schema = portfolio::contracts::Contract::ALL
        .into_iter()
        .find(|one| one.key() == contract.key())
        .expect("a contract of the sample");
    let schema =
        application_core::contract::IntegrationEventContractContribution::payload_schema(&schema)
            .to_vec();
    let value = serde_json::from_slice(payload).expect("JSON");
    match judge(&validator(&schema), &value) {
        None => Ok(()),
        Some((pointer, rule)) => {
            let (rule, bound) = rule.split_once(" is ").expect("a rule with a bound");
            Err(rejected(pointer, rule, bound))
        }
    }
}

fn identities(draft: &IntegrationEventDraft, contract: &ContractDescriptor) -> EventIdentities {
    EventIdentities {
        event_id: draft.event_id.clone(),
        contract_id: contract.contract_id.clone(),
        payload_version: contract.payload_version,
        destination: contract.destination.clone(),
        tenant_scope: TenantScope::system(),
        aggregate: draft.aggregate.clone(),
        order: draft.order,
        occurred_at: draft.occurred_at,
        correlation_id: draft.correlation_id.clone(),
        causation_id: draft.causation_id.clone(),
    }
}

/// The document of [`TestCodec`].
pub(crate) fn envelope(identities: &EventIdentities, payload: &[u8]) -> Vec<u8> {
    let payload: Value = serde_json::from_slice(payload).expect("JSON");
    json!({
        "eventId": identities.event_id.as_str(),
        "contractId": identities.contract_id.as_str(),
        "destination": identities.destination.as_str(),
        "aggregateType": identities.aggregate.aggregate_type().as_str(),
        "aggregateId": identities.aggregate.id().as_str(),
        "sequence": identities.order.sequence().value(),
        "occurredAt": identities.occurred_at.epoch_millis(),
        "correlationId": identities.correlation_id.as_str(),
        "payload": payload,
    })
    .to_string()
    .into_bytes()
}
