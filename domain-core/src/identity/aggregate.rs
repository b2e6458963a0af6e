//! What an event is about, and the total order of the events about it.
//!
//! Invariant: order is `(aggregateSequence, eventIndex)` and nothing else; no timestamp or random
//! id takes its place (requirement 004 §11.5).

use super::text::{IdentityError, ascii_token, bounded, text_identity};

text_identity!(
    /// The kind of aggregate: 1–64 bytes of `[a-z][a-z0-9-]*`.
    AggregateType,
    |text| ascii_token(
        "aggregate type",
        text,
        64,
        "[a-z][a-z0-9-]*",
        |byte| byte.is_ascii_lowercase(),
        |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-',
    )
);
text_identity!(
    /// Which aggregate of its kind: 1–256 bytes of UTF-8 in normalization form C that a person
    /// can see: no control, format or invisible characters, no white space but single interior
    /// spaces. Two ids that look alike would otherwise be two ordering scopes.
    AggregateId,
    check_aggregate_id
);

const VISIBLE: &str = "visible characters (no control, format or white-space character)";

fn check_aggregate_id(text: &str) -> Result<(), IdentityError> {
    const WHAT: &str = "aggregate id";
    bounded(WHAT, text, AggregateId::MAXIMUM_BYTES)?;
    let mut previous_was_space = true;
    for (offset, character) in text.char_indices() {
        let space = character == ' ';
        let refused = if space {
            previous_was_space || offset + 1 == text.len()
        } else {
            character.is_control() || character.is_whitespace() || is_invisible(character)
        };
        if refused {
            return Err(IdentityError::Character {
                what: WHAT,
                grammar: VISIBLE,
                offset,
            });
        }
        previous_was_space = space;
    }
    if unicode_normalization::is_nfc(text) {
        Ok(())
    } else {
        Err(IdentityError::NotNormalized { what: WHAT })
    }
}

/// Format characters and the other code points that render as nothing (Unicode 16,
/// Default_Ignorable_Code_Point, general category Cf, and the blank letters).
fn is_invisible(character: char) -> bool {
    matches!(
        u32::from(character),
        0x00AD | 0x034F | 0x061C | 0x06DD | 0x070F | 0x08E2 | 0x115F..=0x1160 | 0x17B4..=0x17B5
            | 0x0600..=0x0605 | 0x0890..=0x0891 | 0x180B..=0x180F | 0x200B..=0x200F
            | 0x202A..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF
            | 0xFFA0 | 0xFFF0..=0xFFFB | 0x110BD | 0x110CD | 0x13430..=0x1343F
            | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF
    )
}

impl AggregateId {
    /// Bytes an aggregate id may have.
    pub const MAXIMUM_BYTES: usize = 256;
}

/// One aggregate: its kind and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateIdentity {
    aggregate_type: AggregateType,
    id: AggregateId,
}

impl AggregateIdentity {
    /// Joins kind and id.
    pub fn new(aggregate_type: AggregateType, id: AggregateId) -> Self {
        Self { aggregate_type, id }
    }

    /// The kind.
    pub fn aggregate_type(&self) -> &AggregateType {
        &self.aggregate_type
    }

    /// The id within its kind.
    pub fn id(&self) -> &AggregateId {
        &self.id
    }
}

/// The greatest integer that every JSON reader keeps exactly: 2^53 − 1 (RFC 8259 §6).
pub const MAXIMUM_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The aggregate's version when the event happened: 0 to 2^53 − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateSequence(i64);

impl AggregateSequence {
    /// Accepts a non-negative number that JSON carries exactly.
    ///
    /// # Errors
    /// [`IdentityError::OutOfRange`].
    pub fn new(number: i64) -> Result<Self, IdentityError> {
        if (0..=MAXIMUM_SAFE_INTEGER).contains(&number) {
            Ok(Self(number))
        } else {
            Err(IdentityError::OutOfRange {
                what: "aggregate sequence",
                actual: number.into(),
                minimum: 0,
                maximum: MAXIMUM_SAFE_INTEGER.into(),
            })
        }
    }

    /// The number.
    pub fn value(self) -> i64 {
        self.0
    }
}

/// The event's place among those of one aggregate sequence: 0 to 2,147,483,647.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventIndex(i32);

impl EventIndex {
    /// Accepts a non-negative number that fits a signed 32-bit column.
    ///
    /// # Errors
    /// [`IdentityError::OutOfRange`].
    pub fn new(number: i64) -> Result<Self, IdentityError> {
        match i32::try_from(number) {
            Ok(index) if index >= 0 => Ok(Self(index)),
            _ => Err(IdentityError::OutOfRange {
                what: "event index",
                actual: number.into(),
                minimum: 0,
                maximum: i32::MAX.into(),
            }),
        }
    }

    /// The number.
    pub fn value(self) -> i32 {
        self.0
    }
}

/// The total order of one aggregate's events. The derived order compares the sequence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateOrder {
    sequence: AggregateSequence,
    index: EventIndex,
}

impl AggregateOrder {
    /// Joins sequence and index.
    pub fn new(sequence: AggregateSequence, index: EventIndex) -> Self {
        Self { sequence, index }
    }

    /// The aggregate's version.
    pub fn sequence(self) -> AggregateSequence {
        self.sequence
    }

    /// The place within that version.
    pub fn index(self) -> EventIndex {
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregate_ids_are_visible_and_normalized() {
        for good in ["0", "null", "worklog-42", "작업-42", "é", "a b", "🛰", "''"] {
            assert!(AggregateId::parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            " ",
            " a",
            "a ",
            "a  b",
            "\u{200b}",
            "a\u{200d}b",
            "\u{feff}a",
            "a\tb",
            "\0",
            "\u{3164}",
            "\u{a0}",
            "\u{2028}",
            "\u{e0041}",
            "e\u{301}",
        ] {
            assert!(AggregateId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(AggregateId::parse("x".repeat(256)).is_ok());
        assert!(AggregateId::parse("x".repeat(257)).is_err());
    }

    #[test]
    fn order_compares_the_sequence_before_the_index() {
        let order = |sequence, index| {
            AggregateOrder::new(
                AggregateSequence::new(sequence).expect("sequence"),
                EventIndex::new(index).expect("index"),
            )
        };
        assert!(order(1, 9) < order(2, 0));
        assert!(order(2, 0) < order(2, 1));
        assert!(AggregateSequence::new(MAXIMUM_SAFE_INTEGER + 1).is_err());
        assert!(AggregateSequence::new(-1).is_err());
        assert!(EventIndex::new(i64::from(i32::MAX) + 1).is_err());
    }
}
