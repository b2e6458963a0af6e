//! A SHA-256 value and its hexadecimal form.
//!
//! Invariant: the text form is 64 lower-case hexadecimal characters, always.

use sha2::{Digest as _, Sha256};

/// Why a text or slice is not a SHA-256 value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Not 64 lower-case hexadecimal characters.
    #[error("a SHA-256 text has 64 lower-case hexadecimal characters")]
    Text,
    /// Not 32 bytes.
    #[error("a SHA-256 value has 32 bytes, not {0}")]
    Length(usize),
}

/// 32 bytes of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// The hash of exactly these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Takes the bytes of a hash computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads a stored hash.
    ///
    /// # Errors
    /// [`DigestError::Length`].
    pub fn from_slice(bytes: &[u8]) -> Result<Self, DigestError> {
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| DigestError::Length(bytes.len()))
    }

    /// Reads 64 lower-case hexadecimal characters.
    ///
    /// # Errors
    /// [`DigestError::Text`].
    pub fn from_hex(text: &str) -> Result<Self, DigestError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(DigestError::Text);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hexadecimal characters.
    pub fn to_hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
            .collect()
    }
}

fn nibble(digit: u8) -> Result<u8, DigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(DigestError::Text),
    }
}

impl std::fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sha256Digest({})", self.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_value_and_both_text_directions() {
        let digest = Sha256Digest::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_hex(), hex);
        assert_eq!(Sha256Digest::from_hex(hex), Ok(digest));
        for bad in ["", &hex[1..], &hex.to_uppercase(), &format!("{hex}0")] {
            assert_eq!(Sha256Digest::from_hex(bad), Err(DigestError::Text));
        }
        assert_eq!(
            Sha256Digest::from_slice(&[0; 31]),
            Err(DigestError::Length(31))
        );
    }
}
