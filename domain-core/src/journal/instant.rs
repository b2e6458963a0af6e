//! Semantic time inside journal payloads: seconds since 1970-01-01T00:00:00Z and nanoseconds.
//!
//! Invariant: the seconds lie within the years −1000000000 to +1000000000 and the nanoseconds below
//! one second, so that every instant written by one runtime can be read by another (requirement
//! 000, "Owner payload": the Instant range is validated).

/// A point in time with nanosecond precision. Nanoseconds always count forward from the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochInstant {
    seconds: i64,
    nanos: u32,
}

/// The given parts are not an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstantOutOfRange {
    /// Seconds outside [`EpochInstant::MIN_SECONDS`]..=[`EpochInstant::MAX_SECONDS`].
    #[error("epoch second {0} lies outside -31557014167219200..=31556889864403199")]
    Seconds(i64),
    /// Nanoseconds that make a second or more.
    #[error("nano-of-second {0} lies outside 0..=999999999")]
    Nanos(u32),
}

impl EpochInstant {
    /// −1000000000-01-01T00:00:00Z.
    pub const MIN_SECONDS: i64 = -31_557_014_167_219_200;
    /// +1000000000-12-31T23:59:59Z.
    pub const MAX_SECONDS: i64 = 31_556_889_864_403_199;
    /// Largest nano-of-second.
    pub const MAX_NANOS: u32 = 999_999_999;

    /// Checks both parts.
    ///
    /// # Errors
    /// [`InstantOutOfRange`] names the part that is out of range, seconds first.
    pub const fn new(seconds: i64, nanos: u32) -> Result<EpochInstant, InstantOutOfRange> {
        if seconds < EpochInstant::MIN_SECONDS || seconds > EpochInstant::MAX_SECONDS {
            return Err(InstantOutOfRange::Seconds(seconds));
        }
        if nanos > EpochInstant::MAX_NANOS {
            return Err(InstantOutOfRange::Nanos(nanos));
        }
        Ok(EpochInstant { seconds, nanos })
    }

    /// Whole seconds since the epoch, rounded towards the past.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after [`EpochInstant::seconds`].
    pub const fn nanos(self) -> u32 {
        self.nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_instants_and_one_beyond_is_not() {
        let (min, max) = (EpochInstant::MIN_SECONDS, EpochInstant::MAX_SECONDS);
        for (seconds, nanos) in [(min, 0), (max, 999_999_999), (-1, 999_999_999), (0, 0)] {
            let instant = EpochInstant::new(seconds, nanos).expect("inside the range");
            assert_eq!((instant.seconds(), instant.nanos()), (seconds, nanos));
        }
        for seconds in [min - 1, max + 1, i64::MIN, i64::MAX] {
            assert_eq!(
                EpochInstant::new(seconds, 0),
                Err(InstantOutOfRange::Seconds(seconds))
            );
        }
        assert_eq!(
            EpochInstant::new(0, 1_000_000_000),
            Err(InstantOutOfRange::Nanos(1_000_000_000))
        );
    }
}
