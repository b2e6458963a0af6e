//! The envelope of version 1: field order, writing, reading.
//!
//! Invariant: the fields and their order are those of requirement 004 §14.2. `causationId` and
//! `tenantId` are omitted when absent, never null.

mod read;
mod write;

pub(crate) use read::{EnvelopeRefusal, identities_of};
pub(crate) use write::{AFTER_PAYLOAD_BYTES, after_payload, before_payload};

pub(crate) const ENVELOPE_VERSION: &str = "envelopeVersion";
pub(crate) const EVENT_ID: &str = "eventId";
pub(crate) const CONTRACT_ID: &str = "contractId";
pub(crate) const PAYLOAD_VERSION: &str = "payloadVersion";
pub(crate) const LOGICAL_DESTINATION: &str = "logicalDestination";
pub(crate) const AGGREGATE: &str = "aggregate";
pub(crate) const AGGREGATE_TYPE: &str = "type";
pub(crate) const AGGREGATE_ID: &str = "id";
pub(crate) const AGGREGATE_SEQUENCE: &str = "sequence";
pub(crate) const EVENT_INDEX: &str = "eventIndex";
pub(crate) const OCCURRED_AT: &str = "occurredAt";
pub(crate) const CORRELATION_ID: &str = "correlationId";
pub(crate) const CAUSATION_ID: &str = "causationId";
pub(crate) const TENANT_ID: &str = "tenantId";
pub(crate) const CONTENT_TYPE: &str = "contentType";
pub(crate) const PAYLOAD: &str = "payload";
