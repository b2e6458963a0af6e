//! A hash over a sequence of parts that cannot run together.
//!
//! Invariant: the input is `UTF8(domain) || 0x00`, then each part as its unsigned 32-bit
//! big-endian byte length followed by its bytes (requirement 004 §§11.6, 12.5).

use super::Sha256Digest;
use sha2::{Digest as _, Sha256};

/// Hashes length-prefixed parts under a domain-separation prefix.
#[derive(Clone)]
pub struct CanonicalHasher(Sha256);

impl CanonicalHasher {
    /// Starts with the prefix and a zero byte.
    pub fn new(domain: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(domain.as_bytes());
        hasher.update([0]);
        Self(hasher)
    }

    /// Adds one part.
    ///
    /// # Panics
    /// When the part has 2^32 bytes or more; every caller's bound is far below.
    #[must_use]
    pub fn part(mut self, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("a part is shorter than 4 GiB");
        self.0.update(length.to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// The hash of everything added.
    pub fn finish(self) -> Sha256Digest {
        Sha256Digest::from_bytes(self.0.finalize().into())
    }
}

impl std::fmt::Debug for CanonicalHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CanonicalHasher")
    }
}
