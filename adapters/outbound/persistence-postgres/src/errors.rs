//! The one place where the driver's errors become ours.
//!
//! Invariant: an error is told apart by its SQLSTATE or its kind, never by message text, and no
//! message of the server is kept, since a message may quote a value; names of constraints, tables
//! and columns are kept, since those are the schema's.

use domain_core::authority::WriteAdmissionState;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What went wrong between this process and the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseFault {
    /// The server answered with an error.
    #[error("the database answered SQLSTATE {sqlstate}{}", at(.constraint, .table, .column))]
    Answered {
        /// The five characters.
        sqlstate: String,
        /// The violated constraint, index or trigger, where there is one.
        constraint: Option<String>,
        /// The table it belongs to.
        table: Option<String>,
        /// The column, where one is named.
        column: Option<String>,
        /// Whether the session ended with it.
        fatal: bool,
    },
    /// The connection could not be made or broke.
    #[error("the connection to the database failed: {0}")]
    Connection(std::io::ErrorKind),
    /// No connection became free in time, or none could be made in that time.
    #[error("no database connection was available in time")]
    PoolTimedOut,
    /// The pool is closed.
    #[error("the database pool is closed")]
    PoolClosed,
    /// The secure channel could not be made.
    #[error("the secure channel to the database could not be made")]
    Tls,
    /// A column is missing or has another type.
    #[error("column {0} cannot be read")]
    Column(String),
    /// The row that a transaction had locked did not take its own update.
    #[error("a row no longer met the condition it was locked under")]
    Moved,
    /// A statement answered with more or fewer rows than it can.
    #[error("a statement answered with an impossible number of rows")]
    RowCount,
    /// The driver failed in a way that has no name here.
    #[error("the database driver failed")]
    Driver,
}

fn at(constraint: &Option<String>, table: &Option<String>, column: &Option<String>) -> String {
    let mut text = String::new();
    for (what, name) in [
        ("constraint", constraint),
        ("table", table),
        ("column", column),
    ] {
        if let Some(name) = name {
            text.push_str(if text.is_empty() { " for " } else { ", " });
            text.push_str(what);
            text.push(' ');
            text.push_str(name);
        }
    }
    text
}

/// What a fault means for whoever met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The whole transaction may be repeated at once: 40001, 40P01, or a row that moved.
    Again,
    /// The database refused a value or a change: classes 22 and 23, and 25P02, where an earlier
    /// statement of the transaction was refused.
    Refused,
    /// A table or column is missing: the store is not migrated.
    NotMigrated,
    /// Anything else: the work was not done, and may be tried later.
    Unavailable,
}

impl DatabaseFault {
    pub(crate) fn kind(&self) -> FaultKind {
        match self {
            Self::Moved => FaultKind::Again,
            Self::Answered { sqlstate, .. } => match sqlstate.as_str() {
                "40001" | "40P01" => FaultKind::Again,
                "25P02" => FaultKind::Refused,
                "42P01" | "42703" | "3F000" => FaultKind::NotMigrated,
                other if other.starts_with("22") || other.starts_with("23") => FaultKind::Refused,
                _ => FaultKind::Unavailable,
            },
            _ => FaultKind::Unavailable,
        }
    }

    /// Whether a session turned out to be gone: the connection broke, or the server ended it
    /// (class 57P).
    pub(crate) fn is_dead_session(&self) -> bool {
        match self {
            Self::Connection(_) => true,
            Self::Answered { sqlstate, .. } => sqlstate.starts_with("57P"),
            _ => false,
        }
    }

    /// The write admission's state, if it refused a business write.
    pub(crate) fn refused_admission(&self) -> Option<WriteAdmissionState> {
        match self {
            Self::Answered {
                sqlstate,
                constraint: Some(state),
                ..
            } if sqlstate == "CS001" => WriteAdmissionState::from_name(state),
            _ => None,
        }
    }

    /// Whether a statement that may only wait so long was ended: by its lock's limit, by its own,
    /// or by an operator.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Answered { sqlstate, .. } if sqlstate == "55P03" || sqlstate == "57014")
    }

    /// The violated unique constraint, if that is what it is.
    pub(crate) fn unique_violation(&self) -> Option<&str> {
        match self {
            Self::Answered {
                sqlstate,
                constraint: Some(constraint),
                ..
            } if sqlstate == "23505" => Some(constraint),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for DatabaseFault {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => match error.try_downcast_ref::<PgDatabaseError>() {
                Some(error) => Self::Answered {
                    sqlstate: error.code().to_owned(),
                    constraint: error.constraint().map(str::to_owned),
                    table: error.table().map(str::to_owned),
                    column: error.column().map(str::to_owned),
                    fatal: matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic),
                },
                None => Self::Driver,
            },
            sqlx::Error::Io(error) => Self::Connection(error.kind()),
            sqlx::Error::Tls(_) => Self::Tls,
            sqlx::Error::PoolTimedOut => Self::PoolTimedOut,
            sqlx::Error::PoolClosed => Self::PoolClosed,
            sqlx::Error::ColumnNotFound(column)
            | sqlx::Error::ColumnDecode { index: column, .. } => Self::Column(column),
            sqlx::Error::RowNotFound => Self::RowCount,
            _ => Self::Driver,
        }
    }
}

/// How a commit ended that did not succeed.
#[derive(Debug)]
pub(crate) enum CommitFault {
    /// The server said no; nothing was committed.
    Refused(DatabaseFault),
    /// The answer was lost, or the session ended with it: both are possible.
    Unknown(DatabaseFault),
}

impl From<sqlx::Error> for CommitFault {
    fn from(error: sqlx::Error) -> Self {
        let fault = DatabaseFault::from(error);
        match &fault {
            // A session that ends may have committed before it did; class 08 is what a
            // connection pooler says in the server's stead.
            DatabaseFault::Answered {
                sqlstate, fatal, ..
            } if !fatal && !sqlstate.starts_with("08") => Self::Refused(fault),
            _ => Self::Unknown(fault),
        }
    }
}

/// Why one turn of a repeatable transaction ended.
pub(crate) enum Abort<E> {
    /// Repeat it.
    Again(DatabaseFault),
    /// Give up.
    Failed(E),
}

impl<E> Abort<E> {
    /// Sorts a fault that met a statement; `failed` makes the operation's own error.
    pub(crate) fn of(fault: impl Into<DatabaseFault>, failed: fn(DatabaseFault) -> E) -> Self {
        let fault = fault.into();
        match fault.kind() {
            FaultKind::Again => Self::Again(fault),
            _ => Self::Failed(failed(fault)),
        }
    }

    /// Sorts a fault that met a commit.
    pub(crate) fn of_commit(
        fault: CommitFault,
        failed: fn(DatabaseFault) -> E,
        unknown: fn(DatabaseFault) -> E,
    ) -> Self {
        match fault {
            CommitFault::Refused(fault) => Self::of(fault, failed),
            CommitFault::Unknown(fault) => Self::Failed(unknown(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(sqlstate: &str) -> DatabaseFault {
        DatabaseFault::Answered {
            sqlstate: sqlstate.into(),
            constraint: Some("outbox_event_pkey".into()),
            table: Some("outbox_event".into()),
            column: None,
            fatal: false,
        }
    }

    #[test]
    fn faults_are_sorted_by_sqlstate() {
        for (sqlstate, kind) in [
            ("40001", FaultKind::Again),
            ("40P01", FaultKind::Again),
            ("23505", FaultKind::Refused),
            ("22008", FaultKind::Refused),
            ("25P02", FaultKind::Refused),
            ("42P01", FaultKind::NotMigrated),
            ("57P01", FaultKind::Unavailable),
            ("55P03", FaultKind::Unavailable),
            ("57014", FaultKind::Unavailable),
            ("25006", FaultKind::Unavailable),
        ] {
            assert_eq!(answered(sqlstate).kind(), kind, "{sqlstate}");
        }
        assert_eq!(
            answered("23505").unique_violation(),
            Some("outbox_event_pkey")
        );
        assert_eq!(answered("23514").unique_violation(), None);
    }

    #[test]
    fn a_fault_names_the_schema_and_nothing_else() {
        assert_eq!(
            answered("23505").to_string(),
            "the database answered SQLSTATE 23505 for constraint outbox_event_pkey, table \
             outbox_event"
        );
    }

    #[test]
    fn only_a_server_that_lives_on_refuses_a_commit() {
        let unknown =
            CommitFault::from(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()));
        assert!(matches!(
            unknown,
            CommitFault::Unknown(DatabaseFault::Connection(
                std::io::ErrorKind::ConnectionReset
            ))
        ));
        assert!(matches!(
            CommitFault::from(sqlx::Error::PoolClosed),
            CommitFault::Unknown(_)
        ));
    }
}
