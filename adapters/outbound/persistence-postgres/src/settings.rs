//! What a store is configured with.
//!
//! Invariant: every bound is finite and positive, so no statement, lock or idle transaction can
//! hold a row for ever.

use domain_core::delivery::PublicationWindow;
use std::time::Duration;

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

/// Microseconds for SQL; longer durations than any window has are cut.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(PublicationWindow::LONGEST).as_micros()).unwrap_or(i64::MAX)
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
    fn durations_for_sql_are_cut() {
        assert_eq!(micros(Duration::from_millis(1)), 1000);
        assert_eq!(micros(Duration::MAX), 315_360_000_000_000);
    }
}
