//! The partition key: one text per ordering scope.
//!
//! Invariant: 64 lower-case hexadecimal characters, derived only from scope, destination and
//! aggregate, so that polling and change data capture send the same bytes (requirement 004
//! §11.6).

use super::{CanonicalHasher, Sha256Digest};
use crate::identity::{AggregateIdentity, LogicalDestinationId, TenantScope};

/// Domain separation of the partition key.
const DOMAIN: &str = "ca-skeleton.messaging.partition-key.v1";

/// Why a stored text is not a partition key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a partition key has 64 lower-case hexadecimal characters")]
pub struct PartitionKeyError;

/// `partitionKeyText`; its US-ASCII bytes are the record key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey(String);

impl PartitionKey {
    /// The key of an ordering scope.
    pub fn derive(
        scope: &TenantScope,
        destination: &LogicalDestinationId,
        aggregate: &AggregateIdentity,
    ) -> Self {
        let digest = CanonicalHasher::new(DOMAIN)
            .part(scope.as_str().as_bytes())
            .part(destination.as_str().as_bytes())
            .part(aggregate.aggregate_type().as_str().as_bytes())
            .part(aggregate.id().as_str().as_bytes())
            .finish();
        Self(digest.to_hex())
    }

    /// Reads a stored key.
    ///
    /// # Errors
    /// [`PartitionKeyError`].
    pub fn from_stored(text: &str) -> Result<Self, PartitionKeyError> {
        Sha256Digest::from_hex(text)
            .map(|_| Self(text.to_owned()))
            .map_err(|_| PartitionKeyError)
    }

    /// The 64 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 64 US-ASCII bytes of the record key.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The 32 bytes that the text is the hexadecimal form of.
    pub fn digest(&self) -> Sha256Digest {
        Sha256Digest::from_hex(&self.0).expect("the text was checked at construction")
    }
}
