//! Identities of the work on an event: claims, attempts, generations, epochs, stores.
//!
//! Invariant: none of these ever stands in for an event id (requirement 004 §11.7). A claim token
//! is a secret between one worker and the store, so it has no `Display` and a silent `Debug`.

use super::text::{IdentityError, canonical, text_identity};
use crate::hashing::Sha256Digest;

text_identity!(
    /// One send of one record, for diagnosis: 1–64 bytes of the event-id grammar.
    PublicationAttemptId,
    |text| canonical("publication attempt id", text, 64)
);
text_identity!(
    /// The process that holds a claim: 1–128 bytes of the event-id grammar.
    WorkerId,
    |text| canonical("worker id", text, 128)
);
text_identity!(
    /// The random identity that a store gave itself at its first migration: 1–64 bytes of the
    /// event-id grammar (requirement 004 §12.4).
    TransactionResourceId,
    |text| canonical("transaction resource id", text, 64)
);
text_identity!(
    /// One producer runtime, from creation to close: 1–64 bytes of the event-id grammar.
    ProducerGeneration,
    |text| canonical("producer generation", text, 64)
);

/// The opaque token that fences one claim: 16 random bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClaimToken([u8; 16]);

impl ClaimToken {
    /// Takes 16 bytes that nobody can guess.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the store alone.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What journals and diagnostics may hold in the token's place.
    pub fn digest(&self) -> Sha256Digest {
        Sha256Digest::of(&self.0)
    }
}

impl std::fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClaimToken(…)")
    }
}

/// Declares a positive counter that fits a signed 64-bit column.
macro_rules! counter {
    ($(#[$meta:meta])* $name:ident, $what:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// The first one.
            pub const FIRST: Self = Self(1);

            /// Accepts a positive number.
            ///
            /// # Errors
            /// [`IdentityError::OutOfRange`].
            pub fn new(number: i64) -> Result<Self, IdentityError> {
                if number >= 1 {
                    Ok(Self(number))
                } else {
                    Err(IdentityError::OutOfRange {
                        what: $what,
                        actual: number.into(),
                        minimum: 1,
                        maximum: i64::MAX.into(),
                    })
                }
            }

            /// The number.
            pub fn value(self) -> i64 {
                self.0
            }
        }
    };
}

counter!(
    /// One delivery lifecycle of an event; an audited requeue opens the next.
    DeliveryGeneration,
    "delivery generation"
);
counter!(
    /// The publication epoch an event was appended under (requirement 004 §27.1).
    PublicationEpoch,
    "publication epoch"
);

counter!(
    /// How often a delivery's row was written; what an operator saw and acts upon.
    RowVersion,
    "row version"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_token_never_prints_itself() {
        let token = ClaimToken::from_random([0xAB; 16]);
        assert_eq!(format!("{token:?}"), "ClaimToken(…)");
        assert_ne!(token.digest().as_bytes()[..16], [0xAB; 16]);
    }

    #[test]
    fn generations_and_epochs_start_at_one() {
        assert!(DeliveryGeneration::new(0).is_err());
        assert_eq!(DeliveryGeneration::FIRST.value(), 1);
        assert!(PublicationEpoch::new(-1).is_err());
    }
}
