//! Everything of an envelope but its payload.
//!
//! Invariant: the same draft gives the same bytes.

use super::{
    AGGREGATE, AGGREGATE_ID, AGGREGATE_SEQUENCE, AGGREGATE_TYPE, CAUSATION_ID, CONTENT_TYPE,
    CONTRACT_ID, CORRELATION_ID, ENVELOPE_VERSION, EVENT_ID, EVENT_INDEX, LOGICAL_DESTINATION,
    OCCURRED_AT, PAYLOAD, PAYLOAD_VERSION, TENANT_ID,
};
use crate::json::{JsonWriter, WriteRefusal};
use application_core::contract::ContractDescriptor;
use application_core::event::{IntegrationEventDraft, ValidatedIntegrationEvent};

/// Bytes that [`after_payload`] needs.
pub(crate) const AFTER_PAYLOAD_BYTES: usize = 1;

/// Writes up to and including `"payload":`.
pub(crate) fn before_payload(
    json: &mut JsonWriter,
    contract: &ContractDescriptor,
    draft: &IntegrationEventDraft,
    occurred_at: &str,
) -> Result<(), WriteRefusal> {
    json.raw("{")?;
    name(json, ENVELOPE_VERSION)?;
    json.integer(ValidatedIntegrationEvent::ENVELOPE_VERSION.into())?;
    text(json, EVENT_ID, draft.event_id.as_str())?;
    text(json, CONTRACT_ID, contract.contract_id.as_str())?;
    number(
        json,
        PAYLOAD_VERSION,
        contract.payload_version.value().into(),
    )?;
    text(json, LOGICAL_DESTINATION, contract.destination.as_str())?;
    next_name(json, AGGREGATE)?;
    json.raw("{")?;
    name(json, AGGREGATE_TYPE)?;
    json.string(draft.aggregate.aggregate_type().as_str())?;
    text(json, AGGREGATE_ID, draft.aggregate.id().as_str())?;
    number(json, AGGREGATE_SEQUENCE, draft.order.sequence().value())?;
    number(json, EVENT_INDEX, draft.order.index().value().into())?;
    json.raw("}")?;
    text(json, OCCURRED_AT, occurred_at)?;
    text(json, CORRELATION_ID, draft.correlation_id.as_str())?;
    if let Some(causation_id) = &draft.causation_id {
        text(json, CAUSATION_ID, causation_id.as_str())?;
    }
    if let Some(tenant_id) = &draft.tenant_id {
        text(json, TENANT_ID, tenant_id.as_str())?;
    }
    text(json, CONTENT_TYPE, ValidatedIntegrationEvent::CONTENT_TYPE)?;
    next_name(json, PAYLOAD)
}

/// Closes the envelope.
pub(crate) fn after_payload(json: &mut JsonWriter) -> Result<(), WriteRefusal> {
    json.raw("}")
}

fn name(json: &mut JsonWriter, name: &str) -> Result<(), WriteRefusal> {
    json.string(name)?;
    json.raw(":")
}

fn next_name(json: &mut JsonWriter, member: &str) -> Result<(), WriteRefusal> {
    json.raw(",")?;
    name(json, member)
}

fn text(json: &mut JsonWriter, member: &str, value: &str) -> Result<(), WriteRefusal> {
    next_name(json, member)?;
    json.string(value)
}

fn number(json: &mut JsonWriter, member: &str, value: i64) -> Result<(), WriteRefusal> {
    next_name(json, member)?;
    json.integer(value)
}
