//! Identities that travel with one event.
//!
//! Invariant: all of them are US-ASCII of the canonical event-id grammar, so that they fit a
//! header, a column and a log line unchanged (requirement 004 §11.1).

use super::text::{canonical, text_identity};

text_identity!(
    /// The canonical identity of an integration event: 1–96 bytes of
    /// `[A-Za-z0-9][A-Za-z0-9._:-]*`. It never changes over retries, restarts or dispatch modes.
    EventId,
    |text| canonical("event id", text, EventId::MAXIMUM_BYTES)
);
text_identity!(
    /// Groups the events of one workflow: 1–128 bytes of the event-id grammar.
    CorrelationId,
    |text| canonical("correlation id", text, 128)
);
text_identity!(
    /// Names what caused the event: 1–128 bytes of the event-id grammar.
    CausationId,
    |text| canonical("causation id", text, 128)
);
text_identity!(
    /// Identity of one consumer effect (requirement 004 §11.8): 1–128 bytes of the event-id
    /// grammar. It names subscription, handler and effect version, never a Kafka group.
    ConsumerId,
    |text| canonical("consumer id", text, 128)
);

impl EventId {
    /// Bytes an event id may have.
    pub const MAXIMUM_BYTES: usize = 96;
}

#[cfg(test)]
mod tests {
    use super::super::text::{CANONICAL, IdentityError};
    use super::*;

    #[test]
    fn event_id_keeps_the_grammar_and_the_length() {
        for good in ["a", "0", "019f.A_b:c-d", &"x".repeat(96)] {
            assert_eq!(EventId::parse(good).expect(good).as_str(), good);
        }
        for (bad, expected) in [
            ("", IdentityError::Empty { what: "event id" }),
            (
                "-a",
                IdentityError::Character {
                    what: "event id",
                    grammar: CANONICAL,
                    offset: 0,
                },
            ),
            (
                "a b",
                IdentityError::Character {
                    what: "event id",
                    grammar: CANONICAL,
                    offset: 1,
                },
            ),
            (
                "aé",
                IdentityError::Character {
                    what: "event id",
                    grammar: CANONICAL,
                    offset: 1,
                },
            ),
        ] {
            assert_eq!(EventId::parse(bad), Err(expected));
        }
        assert_eq!(
            EventId::parse("x".repeat(97)),
            Err(IdentityError::TooLong {
                what: "event id",
                actual: 97,
                maximum: 96
            })
        );
    }
}
