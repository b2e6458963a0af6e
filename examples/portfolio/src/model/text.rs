//! Text that people entered, fit for one line.
//!
//! Invariant: no control character, so every store takes it and no terminal is steered by it. How
//! long it may be is the contract's rule, not this type's.

/// A control character where text was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a control character at byte {offset}")]
pub struct ControlCharacter {
    /// Byte offset of the character.
    pub offset: usize,
}

/// Text without control characters; may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OneLine(String);

impl OneLine {
    /// Accepts text.
    ///
    /// # Errors
    /// [`ControlCharacter`] with its place.
    pub fn parse(text: impl Into<String>) -> Result<Self, ControlCharacter> {
        let text = text.into();
        match text.char_indices().find(|(_, one)| one.is_control()) {
            Some((offset, _)) => Err(ControlCharacter { offset }),
            None => Ok(Self(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_refused_with_their_place() {
        for good in ["", "a", "표지 시안 – 2차 🛰"] {
            assert_eq!(OneLine::parse(good).unwrap().as_str(), good);
        }
        for (bad, offset) in [("\0", 0), ("é\n", 2), ("a\u{1b}[2J", 1), ("\u{85}", 0)] {
            assert_eq!(OneLine::parse(bad), Err(ControlCharacter { offset }));
        }
    }
}
