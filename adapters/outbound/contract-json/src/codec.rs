//! The one implementation of the envelope codec.
//!
//! Invariant: what is encoded was read back, by the strict reader, and judged by both schemas
//! before it is sealed; local computation only, nothing is fetched, and no error holds a payload
//! value (requirement 004 §§12.3, 14.7).

use crate::admission::Admission;
use crate::catalog::{BoundCatalog, BoundContract};
use crate::envelope::{
    AFTER_PAYLOAD_BYTES, EnvelopeRefusal, PAYLOAD, after_payload, before_payload, identities_of,
};
use crate::json::{JsonRefusal, JsonWriter, Keep, SplitDocument, read_split, read_text};
use crate::occurrence;
use crate::payload::{Refusal, byte_bound, write_payload};
use application_core::contract::ContractKey;
use application_core::event::{
    EventIdentities, IntegrationEventDraft, ValidatedIntegrationEvent, ValidatedParts,
};
use application_core::ports::{
    DecodeError, DecodedEnvelope, EncodeError, EnvelopeCodec, PayloadRejection, RejectionRule,
};
use domain_core::identity::{TenantMode, TenantScope};
use serde_json::Value;
use std::sync::Arc;

/// Encodes and decodes envelopes of version 1 for one deployment.
#[derive(Debug, Clone)]
pub struct JsonEnvelopeCodec {
    catalog: Arc<BoundCatalog>,
    tenants: TenantMode,
}

impl JsonEnvelopeCodec {
    /// A codec for the contracts of `catalog`.
    pub fn new(catalog: Arc<BoundCatalog>, tenants: TenantMode) -> Self {
        Self { catalog, tenants }
    }

    /// The catalog it encodes for.
    pub fn catalog(&self) -> &Arc<BoundCatalog> {
        &self.catalog
    }

    fn write(
        &self,
        contract: &BoundContract,
        draft: &IntegrationEventDraft,
    ) -> Result<Vec<u8>, Refusal> {
        let occurred_at = occurrence::render(draft.occurred_at).ok_or_else(|| {
            Refusal::of_the_whole(byte_bound(
                "range of years of the envelope's occurredAt",
                occurrence::YEARS,
            ))
        })?;
        if let Some(earliest) = self.catalog.earliest_epoch_millis()
            && draft.occurred_at.epoch_millis() < earliest
        {
            return Err(Refusal::of_the_whole(byte_bound(
                "earliest occurredAt in epoch milliseconds that the provider carries",
                earliest,
            )));
        }
        let envelope_bound = || {
            let bound = byte_bound("maximum envelope bytes", contract.maximum_envelope_bytes);
            Refusal::of_the_whole(bound)
        };
        let mut json = JsonWriter::new(contract.maximum_envelope_bytes as usize);
        before_payload(&mut json, &contract.descriptor, draft, &occurred_at)
            .map_err(|_| envelope_bound())?;
        let mut json = write_payload(
            json,
            AFTER_PAYLOAD_BYTES,
            contract.maximum_payload_bytes,
            &contract.compiled.shape,
            draft.payload.as_ref(),
        )?;
        after_payload(&mut json).map_err(|_| envelope_bound())?;
        let bytes = json.into_bytes();
        let document = read_text(&bytes)
            .and_then(|text| read_split(text, PAYLOAD, &Admission::DOCUMENT, Keep::Everything))
            .map_err(|JsonRefusal { rule, .. }| {
                Refusal::of_the_whole(RejectionRule::Shape(rule))
            })?;
        self.judge(contract, document)
            .map_err(|refused| match refused {
                Judged::Envelope(refusal) => Refusal::of_the_whole(RejectionRule::Shape(format!(
                    "the envelope is refused at {}: {}",
                    refusal.pointer, refusal.rule
                ))),
                Judged::Payload(refusal) => refusal,
            })?;
        Ok(bytes)
    }

    /// Judges a whole document by the envelope schema, then its payload by the contract's.
    fn judge(&self, contract: &BoundContract, document: SplitDocument<'_>) -> Result<(), Judged> {
        let SplitDocument {
            mut members,
            value: payload,
            ..
        } = document;
        members.insert(PAYLOAD.to_owned(), payload);
        let mut document = Value::Object(members);
        self.catalog
            .compiled()
            .envelope()
            .judge(&document)
            .map_err(|Refusal { pointer, rule }| {
                Judged::Envelope(EnvelopeRefusal { pointer, rule })
            })?;
        contract
            .compiled
            .judge
            .judge(&document[PAYLOAD].take())
            .map_err(Judged::Payload)
    }

    /// Reads strict JSON and the identities in it.
    fn read<'de>(
        &self,
        envelope: &'de [u8],
        kept: Keep,
    ) -> Result<(SplitDocument<'de>, EventIdentities), DecodeError> {
        bounded(envelope, self.catalog.maximum_document_bytes())?;
        let document = read_text(envelope)
            .and_then(|text| read_split(text, PAYLOAD, &Admission::DOCUMENT, kept))
            .map_err(|JsonRefusal { offset, rule }| DecodeError::Json { offset, rule })?;
        let refuse = |rule: &str| envelope_error(EnvelopeRefusal::shape("/payload", rule));
        match document.raw {
            None => return Err(refuse("required field is missing")),
            Some(raw) if !raw.starts_with('{') => return Err(refuse("must be an object")),
            Some(_) => {}
        }
        let identities = identities_of(&document.members, self.tenants).map_err(envelope_error)?;
        Ok((document, identities))
    }
}

impl EnvelopeCodec for JsonEnvelopeCodec {
    fn encode(
        &self,
        draft: &IntegrationEventDraft,
    ) -> Result<ValidatedIntegrationEvent, EncodeError> {
        let payload_type = draft.payload.payload_type();
        let contract = self.catalog.find_by_type(payload_type).ok_or_else(|| {
            EncodeError::UnknownPayloadType {
                payload_type: payload_type.name(),
            }
        })?;
        let key = || contract.descriptor.key();
        if !contract.may_append {
            return Err(EncodeError::VersionRetired { contract: key() });
        }
        let expected = &contract.descriptor.aggregate_type;
        if draft.aggregate.aggregate_type() != expected {
            return Err(EncodeError::AggregateType {
                contract: key(),
                expected: expected.as_str().to_owned(),
                actual: draft.aggregate.aggregate_type().as_str().to_owned(),
            });
        }
        let tenant_scope =
            TenantScope::resolve(self.tenants, draft.tenant_id.as_ref()).map_err(|source| {
                EncodeError::Tenant {
                    contract: key(),
                    source,
                }
            })?;
        let envelope = self
            .write(contract, draft)
            .map_err(|refusal| EncodeError::Rejected(rejection(key(), refusal)))?;
        Ok(ValidatedIntegrationEvent::seal(ValidatedParts {
            identities: EventIdentities {
                event_id: draft.event_id.clone(),
                contract_id: contract.descriptor.contract_id.clone(),
                payload_version: contract.descriptor.payload_version,
                destination: contract.descriptor.destination.clone(),
                tenant_scope,
                aggregate: draft.aggregate.clone(),
                order: draft.order,
                occurred_at: draft.occurred_at,
                correlation_id: draft.correlation_id.clone(),
                causation_id: draft.causation_id.clone(),
            },
            schemas: contract.schemas,
            binding_revision: contract.binding_revision.clone(),
            ordering_required: contract.ordering_required,
            requeue_horizon: contract.descriptor.requeue_horizon,
            trace: draft.trace.clone(),
            envelope,
        }))
    }

    fn read_identities(&self, envelope: &[u8]) -> Result<EventIdentities, DecodeError> {
        self.read(envelope, Keep::Nothing)
            .map(|(_, identities)| identities)
    }

    fn decode(&self, envelope: &[u8]) -> Result<DecodedEnvelope, DecodeError> {
        let (document, identities) = self.read(envelope, Keep::Everything)?;
        let key = ContractKey {
            contract_id: identities.contract_id.clone(),
            payload_version: identities.payload_version,
        };
        let Some(contract) = self.catalog.find(&key) else {
            return Err(DecodeError::UnknownContract(key));
        };
        bounded(envelope, contract.descriptor.maximum_envelope_bytes)?;
        if identities.destination != contract.descriptor.destination {
            return Err(envelope_error(EnvelopeRefusal::shape(
                "/logicalDestination",
                "is not the contract's destination",
            )));
        }
        if *identities.aggregate.aggregate_type() != contract.descriptor.aggregate_type {
            return Err(envelope_error(EnvelopeRefusal::shape(
                "/aggregate/type",
                "is not the contract's aggregate type",
            )));
        }
        let payload = document.raw.unwrap_or_default().as_bytes().to_vec();
        let maximum = contract.descriptor.maximum_payload_bytes;
        if payload.len() > maximum as usize {
            let refusal = Refusal::of_the_whole(byte_bound("maximum payload bytes", maximum));
            return Err(DecodeError::Payload(rejection(key, refusal)));
        }
        self.judge(contract, document)
            .map_err(|refused| match refused {
                Judged::Envelope(refusal) => envelope_error(refusal),
                Judged::Payload(refusal) => DecodeError::Payload(rejection(key, refusal)),
            })?;
        Ok(DecodedEnvelope {
            identities,
            payload,
        })
    }
}

/// Which schema refused a document.
enum Judged {
    Envelope(EnvelopeRefusal),
    Payload(Refusal),
}

fn bounded(envelope: &[u8], maximum: u32) -> Result<(), DecodeError> {
    let maximum = maximum as usize;
    if envelope.len() > maximum {
        Err(DecodeError::TooLarge {
            actual: envelope.len(),
            maximum,
        })
    } else {
        Ok(())
    }
}

fn envelope_error(EnvelopeRefusal { pointer, rule }: EnvelopeRefusal) -> DecodeError {
    DecodeError::Envelope { pointer, rule }
}

fn rejection(contract: ContractKey, Refusal { pointer, rule }: Refusal) -> PayloadRejection {
    PayloadRejection {
        contract,
        pointer,
        rule,
    }
}
