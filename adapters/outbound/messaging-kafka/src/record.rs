//! An event as a Kafka record.
//!
//! Invariant: nothing is encoded here. Key, value and timestamp are the sealed key, the sealed
//! bytes and the domain's time; the headers repeat identities of the row in one fixed order, so
//! that polling and change data capture emit the same record (requirement 004 §14.3).

use application_core::event::{
    EventIdentities, StoredOutboxEvent, TraceContext, ValidatedIntegrationEvent,
};
use domain_core::hashing::PartitionKey;
use domain_core::identity::DestinationBindingRevision;
use shared_contract::header;

/// One header: a fixed name and US-ASCII bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Vec<u8>,
}

/// A record as it will be on the wire, but for the topic.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaRecord {
    /// The 64 US-ASCII bytes of the partition key.
    pub key: Vec<u8>,
    /// The stored document.
    pub value: Vec<u8>,
    /// `occurred_at` in milliseconds since 1970-01-01T00:00:00Z.
    pub timestamp_millis: i64,
    /// `id`, `contract-id`, `payload-version`, then `traceparent` and `tracestate` when stored.
    pub headers: Vec<RecordHeader>,
}

/// What a record is made of, wherever it comes from.
#[derive(Clone, Copy)]
pub(crate) struct RecordSource<'a> {
    pub(crate) identities: &'a EventIdentities,
    pub(crate) binding_revision: &'a DestinationBindingRevision,
    partition_key: &'a PartitionKey,
    trace: Option<&'a TraceContext>,
    envelope: &'a [u8],
}

impl<'a> From<&'a StoredOutboxEvent> for RecordSource<'a> {
    fn from(event: &'a StoredOutboxEvent) -> Self {
        Self {
            identities: &event.identities,
            binding_revision: &event.binding_revision,
            partition_key: &event.partition_key,
            trace: event.trace.as_ref(),
            envelope: &event.envelope,
        }
    }
}

impl<'a> From<&'a ValidatedIntegrationEvent> for RecordSource<'a> {
    fn from(event: &'a ValidatedIntegrationEvent) -> Self {
        Self {
            identities: event.identities(),
            binding_revision: event.binding_revision(),
            partition_key: event.partition_key(),
            trace: event.trace(),
            envelope: event.envelope(),
        }
    }
}

/// The record of a stored event.
pub fn compile_record(event: &StoredOutboxEvent) -> KafkaRecord {
    compile(event.into())
}

pub(crate) fn compile(event: RecordSource<'_>) -> KafkaRecord {
    let placed = |name, value: &str| RecordHeader {
        name,
        value: value.as_bytes().to_vec(),
    };
    let identities = event.identities;
    let mut headers = vec![
        placed(header::ID, identities.event_id.as_str()),
        placed(header::CONTRACT_ID, identities.contract_id.as_str()),
        placed(
            header::PAYLOAD_VERSION,
            &identities.payload_version.to_string(),
        ),
    ];
    if let Some(trace) = event.trace {
        headers.push(placed(header::TRACEPARENT, trace.parent()));
        headers.extend(trace.state().map(|state| placed(header::TRACESTATE, state)));
    }
    KafkaRecord {
        key: event.partition_key.as_bytes().to_vec(),
        value: event.envelope.to_vec(),
        timestamp_millis: identities.occurred_at.epoch_millis(),
        headers,
    }
}

impl KafkaRecord {
    /// What key and headers of any record may take at most, with the record's own framing: the
    /// room between the bounds of an envelope and of a record.
    pub(crate) const MAXIMUM_OVERHEAD: u32 = 1_024;

    /// The most bytes that the record takes in a batch: every variable-length number at its
    /// longest.
    pub(crate) fn wire_bytes(&self) -> usize {
        const LENGTH: usize = 5;
        // Length, attributes, timestamp delta, offset delta, key length, value length, headers.
        const FRAME: usize = LENGTH + 1 + 10 + LENGTH + LENGTH + LENGTH + LENGTH;
        let headers: usize = self
            .headers
            .iter()
            .map(|header| LENGTH + header.name.len() + LENGTH + header.value.len())
            .sum();
        FRAME + self.key.len() + self.value.len() + headers
    }
}

impl std::fmt::Debug for KafkaRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaRecord")
            .field("value_bytes", &self.value.len())
            .field("timestamp_millis", &self.timestamp_millis)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "record_golden.rs"]
pub(crate) mod golden;
