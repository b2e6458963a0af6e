//! Points in time, by whose clock they are.
//!
//! Invariant: the three clocks have three types, so that a process's wall clock can never judge a
//! lease (requirement 004 §11.9).

use std::time::Duration;

/// The least epoch second that `java.time.Instant` can hold, the range of the journal's facts.
const MINIMUM_SECONDS: i64 = -31_557_014_167_219_200;
/// The greatest such second.
const MAXIMUM_SECONDS: i64 = 31_556_889_864_403_199;

/// Why a pair of numbers is not an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstantError {
    /// Seconds outside the range of the journal's facts.
    #[error("epoch second {0} is outside {MINIMUM_SECONDS} to {MAXIMUM_SECONDS}")]
    Seconds(i64),
    /// Nanoseconds of a whole second or more.
    #[error("nano-of-second {0} is outside 0 to 999999999")]
    Nanos(u32),
}

/// When something happened, by the clock of the domain that says so: a fact, never a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OccurredAt {
    seconds: i64,
    nanos: u32,
}

impl OccurredAt {
    /// Seconds since 1970-01-01T00:00:00Z and the nanoseconds that follow them.
    ///
    /// # Errors
    /// [`InstantError`] with the bound.
    pub fn new(seconds: i64, nanos: u32) -> Result<Self, InstantError> {
        if !(MINIMUM_SECONDS..=MAXIMUM_SECONDS).contains(&seconds) {
            return Err(InstantError::Seconds(seconds));
        }
        if nanos > 999_999_999 {
            return Err(InstantError::Nanos(nanos));
        }
        Ok(Self { seconds, nanos })
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`InstantError`] with the bound.
    pub fn from_epoch_millis(millis: i64) -> Result<Self, InstantError> {
        let nanos = millis.rem_euclid(1000) * 1_000_000;
        Self::new(
            millis.div_euclid(1000),
            u32::try_from(nanos).expect("less than a second"),
        )
    }

    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after the whole second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// Milliseconds since 1970-01-01T00:00:00Z; finer parts are cut, towards the past. Saturates
    /// for instants some 292 million years away, which no envelope can hold.
    pub fn epoch_millis(self) -> i64 {
        self.seconds
            .saturating_mul(1000)
            .saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// A point on the database clock: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseInstant(i64);

impl DatabaseInstant {
    /// Takes what the database said.
    pub const fn from_epoch_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn epoch_micros(self) -> i64 {
        self.0
    }

    /// This much later; saturates at the end of time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }
}

/// A point on one process's monotonic clock: the time since an origin that only that process
/// knows. It is compared with others of the same process and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicInstant(Duration);

impl MonotonicInstant {
    /// Takes the time since the process's origin.
    pub fn since_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// This much later; saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// How long until `later`; zero when it has passed.
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_cut_towards_the_past() {
        let millis = |seconds, nanos| {
            OccurredAt::new(seconds, nanos)
                .expect("in range")
                .epoch_millis()
        };
        assert_eq!(millis(1, 999_999), 1000);
        assert_eq!(millis(-1, 999_999_999), -1);
        assert_eq!(millis(-1, 0), -1000);
        assert_eq!(millis(MAXIMUM_SECONDS, 0), i64::MAX);
        assert_eq!(millis(MINIMUM_SECONDS, 0), i64::MIN);
        for value in [-1, 0, 1, -1001, 1_785_215_430_123] {
            assert_eq!(
                OccurredAt::from_epoch_millis(value).map(OccurredAt::epoch_millis),
                Ok(value)
            );
        }
    }

    #[test]
    fn the_range_is_that_of_the_journal() {
        assert!(OccurredAt::new(MINIMUM_SECONDS, 0).is_ok());
        assert!(OccurredAt::new(MAXIMUM_SECONDS, 999_999_999).is_ok());
        assert_eq!(
            OccurredAt::new(MAXIMUM_SECONDS + 1, 0),
            Err(InstantError::Seconds(MAXIMUM_SECONDS + 1))
        );
        assert_eq!(
            OccurredAt::new(0, 1_000_000_000),
            Err(InstantError::Nanos(1_000_000_000))
        );
    }
}
