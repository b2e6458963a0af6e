//! Logical destinations and the revisions of their bindings.
//!
//! Invariant: neither names a physical topic (requirement 004 §11.4); where a destination leads
//! is the deployment's business, captured per event by the binding revision (§13.6).

use super::text::{ascii_token, text_identity};

text_identity!(
    /// A delivery class that contracts require: 1–96 bytes of `[a-z][a-z0-9-]*`, such as
    /// `portfolio-domain-events`.
    LogicalDestinationId,
    |text| ascii_token(
        "logical destination id",
        text,
        96,
        "[a-z][a-z0-9-]*",
        |byte| byte.is_ascii_lowercase(),
        |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-',
    )
);
text_identity!(
    /// One revision of a destination's binding: 1–96 bytes of `[a-z][a-z0-9.-]*`. An event keeps
    /// the revision it was appended under.
    DestinationBindingRevision,
    |text| ascii_token(
        "destination binding revision",
        text,
        96,
        "[a-z][a-z0-9.-]*",
        |byte| byte.is_ascii_lowercase(),
        |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-'),
    )
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_lower_case_words_with_hyphens() {
        assert!(LogicalDestinationId::parse("portfolio-domain-events").is_ok());
        for bad in ["", "Portfolio", "a.b", "1a", "a_b", "a\u{200b}"] {
            assert!(LogicalDestinationId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(DestinationBindingRevision::parse("portfolio-domain-events-r1").is_ok());
    }
}
