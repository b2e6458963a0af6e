//! Driver errors as the sample sees them.
//!
//! Invariant: errors are told apart by code, never by message, and no value of a row is repeated.

use application_core::Cause;

/// Why the store did not do it. The caller's transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another version of the aggregate is there; load it and decide again.
    #[error("another version of the aggregate is stored by now")]
    Stale,
    /// The database is busy or aborted the transaction; try the whole again.
    #[error("the database asked for the transaction to be tried again")]
    TryAgain(#[source] Cause),
    /// A stored row breaks a rule of the schema.
    #[error("a stored row cannot be read: {what}")]
    Corrupt {
        /// Which column and rule, without its content.
        what: String,
    },
    /// The database did not answer or refused.
    #[error("the portfolio's tables cannot be used")]
    Failed(#[source] Cause),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::ColumnDecode { index, .. } = &error {
            return Self::Corrupt {
                what: format!("column {index} has another type"),
            };
        }
        let code = error
            .as_database_error()
            .and_then(|refused| refused.code())
            .map(std::borrow::Cow::into_owned);
        match code.as_deref() {
            // SQLSTATE 40001 and 40P01: serialization failure and deadlock.
            Some("40001" | "40P01") => Self::TryAgain(Box::new(error)),
            Some(code) if is_sqlite_busy(code) => Self::TryAgain(Box::new(error)),
            _ => Self::Failed(Box::new(error)),
        }
    }
}

/// SQLite's extended result codes keep the primary code, 5 for busy and 6 for locked, in the low
/// byte. A SQLSTATE has five characters, which no such code of SQLite reaches.
fn is_sqlite_busy(code: &str) -> bool {
    code.len() < 5
        && code
            .parse::<u32>()
            .is_ok_and(|code| matches!(code & 0xFF, 5 | 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_told_by_the_low_byte_and_never_from_a_sqlstate() {
        for busy in ["5", "6", "261", "517", "262"] {
            assert!(is_sqlite_busy(busy), "{busy}");
        }
        for other in ["1", "8", "2067", "00005", "22021", "", "40001"] {
            assert!(!is_sqlite_busy(other), "{other}");
        }
    }
}
