//! The SHA-256 that guards one record and chains the next.
//!
//! Invariant: a checksum is exactly 32 raw bytes; text forms exist for people only.

use std::fmt;

use sha2::{Digest, Sha256};

/// SHA-256 over the encoded bytes of fields 2 to 6 of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// Length in bytes.
    pub const LENGTH: usize = 32;

    /// SHA-256 of no bytes: what the first record names as its predecessor.
    pub const GENESIS: Checksum = Checksum([
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9,
        0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52,
        0xb8, 0x55,
    ]);

    /// Hashes the covered bytes.
    pub fn of(covered: &[u8]) -> Checksum {
        Checksum(Sha256::digest(covered).into())
    }

    /// Takes 32 bytes as they stand in a record.
    pub const fn from_bytes(bytes: [u8; 32]) -> Checksum {
        Checksum(bytes)
    }

    /// The 32 raw bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Checksum({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_is_the_hash_of_nothing() {
        assert_eq!(Checksum::of(b""), Checksum::GENESIS);
    }

    #[test]
    fn the_hash_is_sha_256_and_prints_as_lower_case_hex() {
        // The one-block example of FIPS 180-2, appendix B.1.
        assert_eq!(
            Checksum::of(b"abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
