//! The grammars that textual identities share, and the newtype that carries one.
//!
//! Invariant: every check is bounded by the declared maximum before it looks at a character.

/// Why a text is not the identity it claims to be. Offsets and lengths are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Nothing was given.
    #[error("{what} is empty; at least 1 byte is required")]
    Empty {
        /// The identity's name.
        what: &'static str,
    },
    /// More than the declared maximum was given.
    #[error("{what} has {actual} bytes; at most {maximum} are allowed")]
    TooLong {
        /// The identity's name.
        what: &'static str,
        /// Bytes given.
        actual: usize,
        /// Bytes allowed.
        maximum: usize,
    },
    /// A character outside the grammar.
    #[error("{what} has a character outside {grammar} at byte {offset}")]
    Character {
        /// The identity's name.
        what: &'static str,
        /// The grammar, as a pattern or a phrase.
        grammar: &'static str,
        /// Byte offset of the first refused character.
        offset: usize,
    },
    /// Two texts that look alike would be two identities.
    #[error("{what} is not in Unicode normalization form C")]
    NotNormalized {
        /// The identity's name.
        what: &'static str,
    },
    /// A number outside its range.
    #[error("{what} is {actual}; {minimum} to {maximum} is allowed")]
    OutOfRange {
        /// The identity's name.
        what: &'static str,
        /// The number given.
        actual: i128,
        /// The least allowed.
        minimum: i128,
        /// The greatest allowed.
        maximum: i128,
    },
    /// A reserved word was used.
    #[error("{what} is the reserved word `{word}`")]
    Reserved {
        /// The identity's name.
        what: &'static str,
        /// The reserved word.
        word: &'static str,
    },
}

impl IdentityError {
    /// Checks a bounded text of printable US-ASCII, space included.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn printable_ascii(
        what: &'static str,
        text: &str,
        maximum: usize,
    ) -> Result<(), IdentityError> {
        let printable = |byte: u8| matches!(byte, 0x20..=0x7E);
        ascii_token(
            what,
            text,
            maximum,
            "printable US-ASCII",
            printable,
            printable,
        )
    }
}

/// Length in bytes between 1 and `maximum`.
pub(crate) fn bounded(what: &'static str, text: &str, maximum: usize) -> Result<(), IdentityError> {
    match text.len() {
        0 => Err(IdentityError::Empty { what }),
        actual if actual > maximum => Err(IdentityError::TooLong {
            what,
            actual,
            maximum,
        }),
        _ => Ok(()),
    }
}

/// A bounded text whose first and further bytes each satisfy a predicate.
pub(crate) fn ascii_token(
    what: &'static str,
    text: &str,
    maximum: usize,
    grammar: &'static str,
    first: fn(u8) -> bool,
    rest: fn(u8) -> bool,
) -> Result<(), IdentityError> {
    bounded(what, text, maximum)?;
    let refused = text.bytes().enumerate().find(|(offset, byte)| {
        !if *offset == 0 {
            first(*byte)
        } else {
            rest(*byte)
        }
    });
    match refused {
        Some((offset, _)) => Err(IdentityError::Character {
            what,
            grammar,
            offset,
        }),
        None => Ok(()),
    }
}

/// The canonical grammar of requirement 004 §11.1, which ids of other things share.
pub(crate) const CANONICAL: &str = "[A-Za-z0-9][A-Za-z0-9._:-]*";

/// A bounded text of the canonical grammar.
pub(crate) fn canonical(
    what: &'static str,
    text: &str,
    maximum: usize,
) -> Result<(), IdentityError> {
    ascii_token(
        what,
        text,
        maximum,
        CANONICAL,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'),
    )
}

/// Declares a text identity with a validating constructor and read-only access.
macro_rules! text_identity {
    ($(#[$meta:meta])* $name:ident, $check:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Accepts a text that satisfies the grammar.
            ///
            /// # Errors
            /// [`IdentityError`](crate::identity::IdentityError) with the rule that was broken.
            pub fn parse(text: impl Into<String>) -> Result<Self, $crate::identity::IdentityError> {
                let text = text.into();
                let check: fn(&str) -> Result<(), $crate::identity::IdentityError> = $check;
                check(&text)?;
                Ok(Self(text))
            }

            /// The exact text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::identity::IdentityError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}
pub(crate) use text_identity;
