//! What a store is configured with.
//!
//! Invariant: every bound is finite and positive, so no statement, lock or idle transaction can
//! hold a row for ever.

use application_core::ports::AppendError;
use domain_core::delivery::{PublicationWindow, WindowError};
use std::time::Duration;

/// The longest duration that SQL is given; longer ones are cut.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Bounds of one connection pool and of the transactions on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSettings {
    /// What `pg_stat_activity` shows: 1–63 printable US-ASCII bytes.
    pub application_name: String,
    /// Connections at most; 1 at least.
    pub maximum_connections: u32,
    /// How long a transaction waits for a connection.
    pub acquire_timeout: Duration,
    /// How long one statement may run.
    pub statement_timeout: Duration,
    /// How long one statement may wait for a lock.
    pub lock_timeout: Duration,
    /// How long a transaction may stand still between two statements before the server ends it;
    /// what frees the rows of a stopped process.
    pub idle_in_transaction_timeout: Duration,
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A name outside its grammar.
    #[error("{what} is not {rule}")]
    Name {
        /// The setting.
        what: &'static str,
        /// Its grammar.
        rule: &'static str,
    },
    /// Nothing could ever run.
    #[error("{what} is less than {minimum}")]
    TooSmall {
        /// The setting.
        what: &'static str,
        /// The least allowed.
        minimum: &'static str,
    },
    /// Longer than the server can count.
    #[error("{what} exceeds 24 hours")]
    TooLong {
        /// The setting.
        what: &'static str,
    },
    /// The publication age cannot bound anything.
    #[error("the maximum automatic publication age cannot be used")]
    Age(#[source] WindowError),
}

impl PoolSettings {
    /// Checks every bound.
    ///
    /// # Errors
    /// [`SettingsError`] with the setting.
    pub fn check(&self) -> Result<(), SettingsError> {
        let name = &self.application_name;
        if !(1..=63).contains(&name.len()) || !name.bytes().all(|byte| matches!(byte, 0x20..=0x7E))
        {
            return Err(SettingsError::Name {
                what: "application name",
                rule: "1 to 63 printable US-ASCII bytes",
            });
        }
        if self.maximum_connections == 0 {
            return Err(SettingsError::TooSmall {
                what: "maximum connections",
                minimum: "1",
            });
        }
        for (what, duration) in [
            ("acquire timeout", self.acquire_timeout),
            ("statement timeout", self.statement_timeout),
            ("lock timeout", self.lock_timeout),
            (
                "idle-in-transaction timeout",
                self.idle_in_transaction_timeout,
            ),
        ] {
            if duration < Duration::from_millis(1) {
                return Err(SettingsError::TooSmall {
                    what,
                    minimum: "1 ms",
                });
            }
            if duration > Duration::from_secs(24 * 60 * 60) {
                return Err(SettingsError::TooLong { what });
            }
        }
        Ok(())
    }
}

/// What an append stamps on a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendPolicy {
    maximum_age: Duration,
    dispatch_profile_id: String,
}

impl AppendPolicy {
    /// `maximum_age` is the profile's maximum automatic publication age, counted from the event's
    /// creation (requirement 004 §18.9); `dispatch_profile_id` has 1–128 bytes of
    /// `[A-Za-z0-9][A-Za-z0-9._:-]*`.
    ///
    /// # Errors
    /// [`SettingsError`] with the rule.
    pub fn new(
        maximum_age: Duration,
        dispatch_profile_id: impl Into<String>,
    ) -> Result<Self, SettingsError> {
        let dispatch_profile_id = dispatch_profile_id.into();
        let bytes = dispatch_profile_id.as_bytes();
        let inner =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
        let grammatical = (1..=128).contains(&bytes.len())
            && bytes[0].is_ascii_alphanumeric()
            && bytes.iter().all(inner);
        if !grammatical {
            return Err(SettingsError::Name {
                what: "dispatch profile id",
                rule: "1 to 128 bytes of [A-Za-z0-9][A-Za-z0-9._:-]*",
            });
        }
        PublicationWindow::new(maximum_age, LONGEST).map_err(SettingsError::Age)?;
        Ok(Self {
            maximum_age,
            dispatch_profile_id,
        })
    }

    /// The profile's id.
    pub fn dispatch_profile_id(&self) -> &str {
        &self.dispatch_profile_id
    }

    /// How long after its creation an event's first generation may be published.
    pub(crate) fn initial_age(
        &self,
        event: &application_core::event::ValidatedIntegrationEvent,
    ) -> Result<Duration, AppendError> {
        PublicationWindow::new(self.maximum_age, event.requeue_horizon())
            .map(|window| window.initial_age())
            .map_err(|error| AppendError::Refused {
                event_id: event.identities().event_id.clone(),
                source: Box::new(error),
            })
    }
}

/// Microseconds for SQL.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PoolSettings {
        PoolSettings {
            application_name: "countersign".into(),
            maximum_connections: 4,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(1),
            idle_in_transaction_timeout: Duration::from_secs(30),
        }
    }

    #[test]
    fn unbounded_or_zero_settings_are_refused() {
        assert_eq!(settings().check(), Ok(()));
        let day = Duration::from_secs(24 * 60 * 60);
        for change in [
            (|s: &mut PoolSettings| s.application_name = String::new()) as fn(&mut PoolSettings),
            |s| s.application_name = "a\nb".into(),
            |s| s.application_name = "x".repeat(64),
            |s| s.maximum_connections = 0,
            |s| s.statement_timeout = Duration::ZERO,
            |s| s.lock_timeout = Duration::from_micros(999),
        ] {
            let mut bad = settings();
            change(&mut bad);
            assert!(bad.check().is_err(), "{bad:?}");
        }
        let endless = PoolSettings {
            idle_in_transaction_timeout: day * 2,
            ..settings()
        };
        assert_eq!(
            endless.check(),
            Err(SettingsError::TooLong {
                what: "idle-in-transaction timeout"
            })
        );
    }

    #[test]
    fn an_append_policy_has_a_profile_and_a_finite_age() {
        let hour = Duration::from_secs(3600);
        assert!(AppendPolicy::new(hour, "local-kafka").is_ok());
        for (age, profile) in [
            (Duration::ZERO, "p"),
            (Duration::MAX, "p"),
            (hour, ""),
            (hour, "-p"),
            (hour, "a b"),
            (hour, &"x".repeat(129)),
        ] {
            assert!(
                AppendPolicy::new(age, profile).is_err(),
                "{age:?} {profile}"
            );
        }
    }

    #[test]
    fn durations_for_sql_are_cut() {
        assert_eq!(micros(Duration::from_millis(1)), 1000);
        assert_eq!(micros(Duration::MAX), 315_360_000_000_000);
    }
}
