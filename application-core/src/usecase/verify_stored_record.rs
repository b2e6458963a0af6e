//! The check before each send: does the row still say what its document says?
//!
//! Invariant: hash, key and identities are computed from the document again and compared with the
//! columns; a difference is for an operator, never for the wire (requirement 004 §16.3).

use crate::event::StoredOutboxEvent;
use crate::ports::{DecodeError, EnvelopeCodec};
use domain_core::hashing::{PartitionKey, envelope_sha256};

/// What differs between a row and its document.
#[derive(Debug, thiserror::Error)]
pub enum RecordMismatch {
    /// The document's hash is not the stored one.
    #[error("the document's hash differs from the stored one")]
    Hash,
    /// The derived key is not the stored one.
    #[error("the derived partition key differs from the stored one")]
    PartitionKey,
    /// An identity in the document is not that of the column.
    #[error("{0} in the document differs from its column")]
    Identity(&'static str),
    /// The document cannot be read.
    #[error("the stored document cannot be read")]
    Document(#[source] DecodeError),
}

impl RecordMismatch {
    /// A short name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hash => "document hash",
            Self::PartitionKey => "partition key",
            Self::Identity(what) => what,
            Self::Document(_) => "unreadable document",
        }
    }
}

/// Compares a stored row with its document.
///
/// # Errors
/// [`RecordMismatch`] with the first difference.
pub fn verify_stored_record(
    codec: &dyn EnvelopeCodec,
    event: &StoredOutboxEvent,
) -> Result<(), RecordMismatch> {
    if envelope_sha256(&event.envelope) != event.envelope_sha256 {
        return Err(RecordMismatch::Hash);
    }
    let row = &event.identities;
    let key = PartitionKey::derive(&row.tenant_scope, &row.destination, &row.aggregate);
    if key != event.partition_key {
        return Err(RecordMismatch::PartitionKey);
    }
    let document = codec
        .read_identities(&event.envelope)
        .map_err(RecordMismatch::Document)?;
    let differences = [
        ("event id", document.event_id != row.event_id),
        ("contract id", document.contract_id != row.contract_id),
        (
            "payload version",
            document.payload_version != row.payload_version,
        ),
        (
            "logical destination",
            document.destination != row.destination,
        ),
        ("tenant", document.tenant_scope != row.tenant_scope),
        ("aggregate", document.aggregate != row.aggregate),
        ("aggregate order", document.order != row.order),
        (
            "occurrence time",
            document.occurred_at.epoch_millis() != row.occurred_at.epoch_millis(),
        ),
        (
            "correlation id",
            document.correlation_id != row.correlation_id,
        ),
        ("causation id", document.causation_id != row.causation_id),
    ];
    match differences.into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(RecordMismatch::Identity(what)),
        None => Ok(()),
    }
}
