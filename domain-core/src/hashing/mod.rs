//! The hashes of the protocol.
//!
//! Invariant: every input is domain-separated or length-prefixed, so that no two different inputs
//! run together. The prefixes are normative (requirement 004 §§11.6, 12.5).

mod canonical;
mod digest;
mod envelope;
mod partition_key;

pub use canonical::CanonicalHasher;
pub use digest::{DigestError, Sha256Digest};
pub use envelope::envelope_sha256;
pub use partition_key::{PartitionKey, PartitionKeyError};
