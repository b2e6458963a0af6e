//! How long to wait before the next attempt.
//!
//! Invariant: the wait is bounded on both sides, grows at most exponentially, and is a pure
//! function of the attempt's number and one random number (requirement 004 §18.9).

use super::FailureClass;
use std::collections::BTreeMap;
use std::time::Duration;

/// Why a retry policy cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RetryPolicyError {
    /// No wait at all would be a busy loop.
    #[error("the minimum retry delay is zero")]
    ZeroMinimum,
    /// The bounds are the wrong way round.
    #[error("the minimum retry delay {minimum:?} exceeds the maximum {maximum:?}")]
    Inverted {
        /// The lower bound given.
        minimum: Duration,
        /// The upper bound given.
        maximum: Duration,
    },
    /// More than a day is no automatic retry any more.
    #[error("the maximum retry delay {0:?} exceeds 24 hours")]
    TooLong(Duration),
    /// No attempt would ever be made.
    #[error("maximum relay attempts is {0}; 1 to 1000 is allowed")]
    Attempts(u32),
}

/// The bounds of the waits between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Backoff {
    minimum: Duration,
    maximum: Duration,
}

/// Bounded exponential backoff with equal jitter, and the number of attempts a generation has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    backoff: Backoff,
    overrides: BTreeMap<FailureClass, Backoff>,
    maximum_attempts: u32,
}

impl RetryPolicy {
    /// Accepts bounds that cannot spin or stall.
    ///
    /// # Errors
    /// [`RetryPolicyError`] with the bound.
    pub fn new(
        minimum: Duration,
        maximum: Duration,
        maximum_attempts: u32,
    ) -> Result<Self, RetryPolicyError> {
        if !(1..=1000).contains(&maximum_attempts) {
            return Err(RetryPolicyError::Attempts(maximum_attempts));
        }
        Ok(Self {
            backoff: Backoff::new(minimum, maximum)?,
            overrides: BTreeMap::new(),
            maximum_attempts,
        })
    }

    /// The same policy with other bounds after one class of failure; the last word counts.
    ///
    /// # Errors
    /// [`RetryPolicyError`] with the bound.
    pub fn after(
        mut self,
        class: FailureClass,
        minimum: Duration,
        maximum: Duration,
    ) -> Result<Self, RetryPolicyError> {
        self.overrides
            .insert(class, Backoff::new(minimum, maximum)?);
        Ok(self)
    }

    /// Publication attempts that one generation may make.
    pub fn maximum_attempts(&self) -> u32 {
        self.maximum_attempts
    }

    /// The wait after attempt number `attempt` (the first is 1) that failed like this: half of the
    /// capped exponential step, plus up to another half chosen by `random`, never below the
    /// minimum.
    pub fn delay(&self, failure: Option<FailureClass>, attempt: u32, random: u64) -> Duration {
        failure
            .and_then(|class| self.overrides.get(&class))
            .unwrap_or(&self.backoff)
            .delay(attempt, random)
    }
}

impl Backoff {
    fn new(minimum: Duration, maximum: Duration) -> Result<Self, RetryPolicyError> {
        if minimum.is_zero() {
            return Err(RetryPolicyError::ZeroMinimum);
        }
        if minimum > maximum {
            return Err(RetryPolicyError::Inverted { minimum, maximum });
        }
        if maximum > Duration::from_secs(24 * 60 * 60) {
            return Err(RetryPolicyError::TooLong(maximum));
        }
        Ok(Self { minimum, maximum })
    }

    fn delay(&self, attempt: u32, random: u64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(32);
        let step = self
            .minimum
            .saturating_mul(2)
            .saturating_mul(1 << doublings.min(31))
            .min(self.maximum);
        let half = step / 2;
        let width = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(if width == 0 { 0 } else { random % (width + 1) });
        (half + jitter).clamp(self.minimum, self.maximum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy::new(Duration::from_millis(100), Duration::from_secs(10), 5).expect("policy")
    }

    #[test]
    fn the_delay_stays_within_its_bounds_for_every_attempt() {
        for attempt in (0..200).chain([u32::MAX]) {
            for random in [0, 1, u64::MAX / 2, u64::MAX] {
                let delay = policy().delay(None, attempt, random);
                assert!(delay >= Duration::from_millis(100), "{attempt} {delay:?}");
                assert!(delay <= Duration::from_secs(10), "{attempt} {delay:?}");
            }
        }
    }

    #[test]
    fn the_least_delay_doubles_until_the_cap() {
        let least: Vec<_> = (1..=8)
            .map(|attempt| policy().delay(None, attempt, 0))
            .collect();
        let millis: Vec<_> = least.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn a_class_of_failure_may_have_bounds_of_its_own() {
        let minute = Duration::from_secs(60);
        let policy = policy()
            .after(FailureClass::BrokerUnavailable, minute, 10 * minute)
            .expect("override");
        let after = |class| policy.delay(class, 1, 0);
        assert_eq!(after(Some(FailureClass::BrokerUnavailable)), minute);
        for class in [None, Some(FailureClass::DeadlineExceeded)] {
            assert_eq!(after(class), Duration::from_millis(100));
        }
        let spinning = policy.after(FailureClass::DeadlineExceeded, Duration::ZERO, minute);
        assert_eq!(spinning, Err(RetryPolicyError::ZeroMinimum));
    }

    #[test]
    fn bounds_that_spin_or_stall_are_refused() {
        let second = Duration::from_secs(1);
        for (minimum, maximum, attempts) in [
            (Duration::ZERO, second, 1),
            (second * 2, second, 1),
            (second, second * 86_401, 1),
            (second, second, 0),
            (second, second, 1001),
        ] {
            assert!(RetryPolicy::new(minimum, maximum, attempts).is_err());
        }
    }
}
