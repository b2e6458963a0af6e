//! Who acted on the outbox, and what they gave as their reason.
//!
//! Invariant: every text is bounded and holds no control character, so that an audit row can be
//! shown in a terminal or a log as it stands (requirement 004 §19.4).

use super::text::{IdentityError, canonical, text_identity};

text_identity!(
    /// An authenticated principal: 1–128 bytes of the event-id grammar.
    OperatorId,
    |text| canonical("operator id", text, 128)
);
text_identity!(
    /// A deployment's stable code for a reason: 1–64 bytes of the event-id grammar.
    ReasonCode,
    |text| canonical("reason code", text, 64)
);
text_identity!(
    /// An incident, change or approval in another system: 1–128 bytes of the event-id grammar.
    ActReference,
    |text| canonical("act reference", text, 128)
);
text_identity!(
    /// What an operator wrote: 1–1,000 bytes, no control character, not blank.
    ReasonText,
    |text| {
        const WHAT: &str = "reason text";
        const MAXIMUM: usize = 1_000;
        if text.len() > MAXIMUM {
            return Err(IdentityError::TooLong {
                what: WHAT,
                actual: text.len(),
                maximum: MAXIMUM,
            });
        }
        if text.trim().is_empty() {
            return Err(IdentityError::Empty { what: WHAT });
        }
        match text.char_indices().find(|(_, one)| one.is_control()) {
            Some((offset, _)) => Err(IdentityError::Character {
                what: WHAT,
                grammar: "characters that are no control characters",
                offset,
            }),
            None => Ok(()),
        }
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_bounded_and_shows_as_it_stands() {
        assert!(ReasonText::parse("broker lost its disk; see the incident").is_ok());
        assert!(ReasonText::parse("ä".repeat(500)).is_ok());
        for refused in ["", "   ", "a\u{1b}[31m", "a\r\nb", &"x".repeat(1_001)] {
            assert!(ReasonText::parse(refused).is_err(), "{refused:?}");
        }
    }
}
