//! The hash of one exact envelope document.
//!
//! Invariant: the input is the wire bytes as stored, never a document written again (requirement
//! 004 §12.5). The hash diagnoses collisions; it keeps nothing secret.

use super::{CanonicalHasher, Sha256Digest};

/// Domain separation of the envelope hash.
const DOMAIN: &str = "ca-skeleton.messaging.envelope.v1";

/// `envelopeSha256` of the exact document.
pub fn envelope_sha256(envelope: &[u8]) -> Sha256Digest {
    CanonicalHasher::new(DOMAIN).part(envelope).finish()
}
