//! The head of the chain and the one rule for what may follow it.
//!
//! Invariant: a head moves forward only, one record at a time, and by a record that hashes to its
//! own checksum, names the head's checksum as its predecessor and carries the next sequence. A
//! chain cannot see that whole records were removed from its end; that takes a head noted elsewhere.

use super::{Checksum, Sequence};

/// Where a journal stands: its last record, the offset after it and its checksum, as one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainHead {
    sequence: Option<Sequence>,
    end_offset: u64,
    checksum: Checksum,
}

/// One framed record that asks to follow a head.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Field 1 as stored.
    pub checksum: Checksum,
    /// Field 2 as stored.
    pub previous: Checksum,
    /// Field 3 as stored; any number, since the record may be damaged.
    pub sequence: u64,
    /// The encoded bytes of fields 2 to 6, exactly as stored.
    pub covered: &'a [u8],
    /// Bytes the whole record takes in the file, header included.
    pub length: u64,
}

/// Why a record does not follow a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// The record's bytes do not hash to the checksum it carries.
    #[error("the record hashes to {computed} but carries checksum {stored}")]
    Checksum {
        /// Field 1 of the record.
        stored: Checksum,
        /// SHA-256 of fields 2 to 6.
        computed: Checksum,
    },
    /// The record follows some other record.
    #[error("the record follows {stored} but the chain stands at {expected}")]
    Previous {
        /// Field 2 of the record.
        stored: Checksum,
        /// Checksum of the head.
        expected: Checksum,
    },
    /// The record is intact and chained but not the next in number.
    #[error("the record carries sequence {stored} where {expected} is next")]
    Sequence {
        /// Field 3 of the record.
        stored: u64,
        /// The next sequence after the head.
        expected: Sequence,
    },
    /// The head carries the last sequence there is.
    #[error("the journal holds the last possible sequence")]
    Exhausted,
}

impl ChainHead {
    /// Head of a journal without records.
    pub const EMPTY: ChainHead = ChainHead {
        sequence: None,
        end_offset: 0,
        checksum: Checksum::GENESIS,
    };

    /// Sequence of the last record; `None` while there is none.
    pub const fn sequence(&self) -> Option<Sequence> {
        self.sequence
    }

    /// Number of records, which is also the last sequence.
    pub fn records(&self) -> u64 {
        self.sequence.map_or(0, Sequence::value)
    }

    /// File offset just past the last record, in bytes.
    pub const fn end_offset(&self) -> u64 {
        self.end_offset
    }

    /// Checksum of the last record, or [`Checksum::GENESIS`].
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// The sequence a next record must carry; `None` when the last one is used.
    pub fn next_sequence(&self) -> Option<Sequence> {
        match self.sequence {
            None => Some(Sequence::FIRST),
            Some(last) => last.next(),
        }
    }

    /// Checks a stored record against this head and returns the head after it.
    ///
    /// # Errors
    /// [`ChainBreak`]: the checksum is checked first, since a damaged record proves nothing about
    /// its other fields, then the predecessor, then the sequence.
    pub fn accept(&self, link: &Link<'_>) -> Result<ChainHead, ChainBreak> {
        let computed = Checksum::of(link.covered);
        if computed != link.checksum {
            return Err(ChainBreak::Checksum {
                stored: link.checksum,
                computed,
            });
        }
        if link.previous != self.checksum {
            return Err(ChainBreak::Previous {
                stored: link.previous,
                expected: self.checksum,
            });
        }
        let expected = self.next_sequence().ok_or(ChainBreak::Exhausted)?;
        if link.sequence != expected.value() {
            return Err(ChainBreak::Sequence {
                stored: link.sequence,
                expected,
            });
        }
        Ok(self.advanced(expected, computed, link.length))
    }

    /// Seals a record that was encoded to follow this head: its checksum, and the head after it.
    ///
    /// `covered` are the encoded fields 2 to 6, carrying this head's checksum and next sequence;
    /// `length` is what the whole record takes in the file.
    ///
    /// # Errors
    /// [`ChainBreak::Exhausted`] when no sequence is left.
    pub fn seal(&self, covered: &[u8], length: u64) -> Result<ChainHead, ChainBreak> {
        let next = self.next_sequence().ok_or(ChainBreak::Exhausted)?;
        Ok(self.advanced(next, Checksum::of(covered), length))
    }

    fn advanced(&self, sequence: Sequence, checksum: Checksum, length: u64) -> ChainHead {
        ChainHead {
            sequence: Some(sequence),
            end_offset: self.end_offset.saturating_add(length),
            checksum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link<'a>(head: &ChainHead, sequence: u64, covered: &'a [u8]) -> Link<'a> {
        Link {
            checksum: Checksum::of(covered),
            previous: head.checksum(),
            sequence,
            covered,
            length: 10,
        }
    }

    #[test]
    fn a_sealed_record_is_accepted_and_both_ways_reach_the_same_head() {
        let sealed = ChainHead::EMPTY
            .seal(b"one", 10)
            .expect("a sequence is left");
        let accepted = ChainHead::EMPTY
            .accept(&link(&ChainHead::EMPTY, 1, b"one"))
            .expect("the first record");
        assert_eq!(sealed, accepted);
        assert_eq!(sealed.sequence(), Some(Sequence::FIRST));
        assert_eq!(sealed.end_offset(), 10);
        assert_eq!(sealed.checksum(), Checksum::of(b"one"));

        let second = sealed
            .accept(&link(&sealed, 2, b"two"))
            .expect("the second");
        assert_eq!((second.records(), second.end_offset()), (2, 20));
    }

    #[test]
    fn a_damaged_record_is_a_checksum_break_whatever_else_is_wrong() {
        let mut damaged = link(&ChainHead::EMPTY, 9, b"one");
        damaged.covered = b"One";
        damaged.previous = Checksum::of(b"elsewhere");
        assert!(matches!(
            ChainHead::EMPTY.accept(&damaged),
            Err(ChainBreak::Checksum { .. })
        ));
    }

    #[test]
    fn an_intact_record_of_another_chain_is_a_previous_break() {
        let mut stray = link(&ChainHead::EMPTY, 1, b"one");
        stray.previous = Checksum::of(b"elsewhere");
        assert!(matches!(
            ChainHead::EMPTY.accept(&stray),
            Err(ChainBreak::Previous { .. })
        ));
    }

    #[test]
    fn a_chained_record_with_another_number_is_a_sequence_break() {
        for number in [0, 2, u64::MAX] {
            assert_eq!(
                ChainHead::EMPTY.accept(&link(&ChainHead::EMPTY, number, b"one")),
                Err(ChainBreak::Sequence {
                    stored: number,
                    expected: Sequence::FIRST
                })
            );
        }
    }

    #[test]
    fn nothing_follows_the_last_sequence() {
        let full = ChainHead {
            sequence: Some(Sequence::LAST),
            ..ChainHead::EMPTY
        };
        assert_eq!(full.next_sequence(), None);
        assert_eq!(full.seal(b"more", 10), Err(ChainBreak::Exhausted));
        assert_eq!(
            full.accept(&link(&full, 1, b"more")),
            Err(ChainBreak::Exhausted)
        );
    }
}
