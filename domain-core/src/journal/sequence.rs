//! The position of a record in its journal.
//!
//! Invariant: a sequence lies within `1..=i64::MAX`. The upper bound keeps every sequence
//! representable by the signed 64-bit integers of the databases and runtimes that store it.

use std::fmt;
use std::num::NonZeroU64;

/// Sequence of one record: the first record of a journal is 1 and each next one is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(NonZeroU64);

/// A number that no record can carry as its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sequence {0} lies outside 1..=9223372036854775807")]
pub struct SequenceOutOfRange(pub u64);

impl Sequence {
    /// Sequence of the first record.
    pub const FIRST: Sequence = Sequence(NonZeroU64::MIN);

    /// Largest sequence there can be.
    pub const LAST: Sequence = match NonZeroU64::new(i64::MAX as u64) {
        Some(value) => Sequence(value),
        None => Sequence::FIRST,
    };

    /// Checks the range.
    ///
    /// # Errors
    /// [`SequenceOutOfRange`] for 0 and for anything above `i64::MAX`.
    pub fn new(value: u64) -> Result<Sequence, SequenceOutOfRange> {
        match NonZeroU64::new(value) {
            Some(nonzero) if value <= Sequence::LAST.value() => Ok(Sequence(nonzero)),
            _ => Err(SequenceOutOfRange(value)),
        }
    }

    /// The number itself.
    pub const fn value(self) -> u64 {
        self.0.get()
    }

    /// The sequence that follows, or `None` after [`Sequence::LAST`].
    pub fn next(self) -> Option<Sequence> {
        Sequence::new(self.value() + 1).ok()
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_one_to_the_largest_signed_integer() {
        assert_eq!(Sequence::new(0), Err(SequenceOutOfRange(0)));
        assert_eq!(Sequence::new(1), Ok(Sequence::FIRST));
        assert_eq!(Sequence::new(i64::MAX as u64), Ok(Sequence::LAST));
        let above = i64::MAX as u64 + 1;
        assert_eq!(Sequence::new(above), Err(SequenceOutOfRange(above)));
        assert_eq!(Sequence::new(u64::MAX), Err(SequenceOutOfRange(u64::MAX)));
    }

    #[test]
    fn nothing_follows_the_last_sequence() {
        assert_eq!(Sequence::FIRST.next().map(Sequence::value), Some(2));
        assert_eq!(Sequence::LAST.next(), None);
    }
}
