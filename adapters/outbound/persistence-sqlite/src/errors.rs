//! What SQLite's result codes mean here; the only place that knows them.
//!
//! Invariant: an error is told by its extended result code, never by its message. The messages
//! that travel on as causes name tables, columns and rules; SQLite puts no value into them.

/// The classes that this adapter treats differently (<https://www.sqlite.org/rescode.html>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Another connection holds the lock.
    Busy,
    /// A constraint or trigger refused.
    Constraint,
    /// A value does not fit: its size or its type.
    Value,
    /// The operation may have reached the disk in part.
    Io,
    /// Everything else: full, read-only, corrupt, no memory, no answer.
    Other,
}

const SQLITE_BUSY: i32 = 5;
const SQLITE_LOCKED: i32 = 6;
const SQLITE_IOERR: i32 = 10;
const SQLITE_TOOBIG: i32 = 18;
const SQLITE_CONSTRAINT: i32 = 19;
const SQLITE_MISMATCH: i32 = 20;

/// The class of an error.
pub(crate) fn classify(error: &sqlx::Error) -> Failure {
    let extended = error
        .as_database_error()
        .and_then(|error| error.code()?.parse::<i32>().ok());
    // The low byte of an extended code is its primary code.
    match extended.map(|code| code & 0xFF) {
        Some(SQLITE_BUSY | SQLITE_LOCKED) => Failure::Busy,
        Some(SQLITE_CONSTRAINT) => Failure::Constraint,
        Some(SQLITE_TOOBIG | SQLITE_MISMATCH) => Failure::Value,
        Some(SQLITE_IOERR) => Failure::Io,
        Some(_) | None => Failure::Other,
    }
}

/// How a commit failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// SQLite or a statement had rolled the transaction back before.
    #[error("the transaction was already rolled back")]
    AlreadyRolledBack,
    /// Nothing was committed.
    #[error("the commit was refused")]
    Refused(#[source] sqlx::Error),
    /// The commit may or may not have happened.
    #[error("the commit was not answered")]
    Unknown(#[source] sqlx::Error),
}

impl CommitError {
    /// Classifies what `COMMIT` said. A failed synchronization may leave a whole commit in the
    /// log, to be found by the next recovery; a worker thread that went away may have committed.
    /// Every other answer comes before the commit mark is written.
    pub(crate) fn of(error: sqlx::Error) -> Self {
        if error.as_database_error().is_none() || classify(&error) == Failure::Io {
            Self::Unknown(error)
        } else {
            Self::Refused(error)
        }
    }
}
