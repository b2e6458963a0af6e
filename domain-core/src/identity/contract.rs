//! The stable semantic name of a contract and the version of its payload.
//!
//! Invariant: name and version are apart (requirement 004 §§11.2–11.3); neither carries a topic,
//! a class name or a tenant.

use super::text::{IdentityError, ascii_token, text_identity};

const GRAMMAR: &str = "[a-z][a-z0-9-]*(\\.[a-z][a-z0-9-]*)+";

text_identity!(
    /// A contract's name: 3–96 bytes of dot-separated lower-case words, two at least, such as
    /// `portfolio.worklog.reserved`.
    ContractId,
    check_contract_id
);

fn check_contract_id(text: &str) -> Result<(), IdentityError> {
    ascii_token(
        "contract id",
        text,
        96,
        GRAMMAR,
        |byte| byte.is_ascii_lowercase(),
        |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-'),
    )?;
    let refused = |offset| IdentityError::Character {
        what: "contract id",
        grammar: GRAMMAR,
        offset,
    };
    let mut offset = 0;
    for word in text.split('.') {
        if !word.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Err(refused(offset));
        }
        offset += word.len() + 1;
    }
    if text.contains('.') {
        Ok(())
    } else {
        Err(refused(text.len()))
    }
}

/// The version of one contract's payload schema: 1 to 2,147,483,647.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadVersion(u32);

impl PayloadVersion {
    /// Accepts a positive version that fits a signed 32-bit column.
    ///
    /// # Errors
    /// [`IdentityError::OutOfRange`].
    pub fn new(number: i64) -> Result<Self, IdentityError> {
        match u32::try_from(number) {
            Ok(version) if version >= 1 && i32::try_from(version).is_ok() => Ok(Self(version)),
            _ => Err(IdentityError::OutOfRange {
                what: "payload version",
                actual: number.into(),
                minimum: 1,
                maximum: i32::MAX.into(),
            }),
        }
    }

    /// The number.
    pub fn value(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for PayloadVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_ids_are_dotted_lower_case_words() {
        for good in ["a.b", "portfolio.worklog.reserved", "a1-x.b2"] {
            assert!(ContractId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "A.b", "a.", ".a", "a..b", "a.1b", "a.b_c", "a.é"] {
            assert!(ContractId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn payload_versions_are_positive_and_fit_the_column() {
        assert_eq!(PayloadVersion::new(1).map(PayloadVersion::value), Ok(1));
        for bad in [0, -1, i64::from(i32::MAX) + 1] {
            assert!(PayloadVersion::new(bad).is_err(), "{bad}");
        }
    }
}
