//! Opening the file: what it must be, how it is opened, and why it could not be.
//!
//! Invariant: nothing but a regular file is ever opened or created, and a file is used only after
//! its schema, journal mode and durability were checked.

use crate::errors::{Failure, classify};
use crate::migrations;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct SqliteStoreOptions {
    /// How long one attempt to take the write lock waits for other processes; it is tried three
    /// times.
    pub busy_timeout: Duration,
    /// How long a caller waits for this process's own write connection.
    pub write_wait: Duration,
    /// Connections for reads; 1 at least.
    pub read_connections: u32,
}

impl Default for SqliteStoreOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            write_wait: Duration::from_secs(30),
            read_connections: 4,
        }
    }
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A directory, a FIFO, a socket or a device.
    #[error("{} is not a regular file", path.display())]
    NotARegularFile {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be looked at, or no file can be created there.
    #[error("{} cannot be looked at or created", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// SQLite cannot open the file, or it is no database.
    #[error("{} cannot be opened as a SQLite database", path.display())]
    Database {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// The schema cannot be brought up to date, or differs from what was applied.
    #[error("the schema of {} cannot be brought up to date", path.display())]
    Schema {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// The file system or the SQLite build does not give what the store needs.
    #[error("{}: {setting} is `{actual}`, not `{required}`", path.display())]
    Setting {
        /// The path.
        path: PathBuf,
        /// The setting.
        setting: &'static str,
        /// What SQLite answered.
        actual: String,
        /// What is needed.
        required: &'static str,
    },
}

/// Read and written by its owner.
const PRIVATE: u32 = 0o600;

/// How often opening meets another process's lock before it gives up.
const OPEN_TRIES: u32 = 3;

/// Connection options that every connection shares.
pub(crate) fn connect_options(path: &Path, options: &SqliteStoreOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(options.busy_timeout)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
}

/// Options of the connections that cannot write.
pub(crate) fn read_options(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.pragma("query_only", "ON")
}

/// Checks the path, creates or migrates the file, and checks how SQLite opened it.
pub(crate) async fn prepare(path: &Path, options: &SqliteStoreOptions) -> Result<(), OpenError> {
    regular_or_absent(path)?;
    create_private(path)?;
    let mut tries = 0;
    loop {
        tries += 1;
        match prepare_once(path, options).await {
            Err(error) if tries < OPEN_TRIES && is_busy(&error) => {}
            result => return result,
        }
    }
}

fn regular_or_absent(path: &Path) -> Result<(), OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(OpenError::NotARegularFile {
            path: path.to_owned(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(OpenError::Path {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Creates the file for its owner alone, whatever the process's mask says; SQLite gives the log beside
/// it the same mode. A file that is there keeps its own.
fn create_private(path: &Path) -> Result<(), OpenError> {
    // SQLite takes these two for databases without a file, which are refused later.
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return Ok(());
    }
    let mut options = std::fs::OpenOptions::new();
    let created = options
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)
        .and_then(|file| file.set_permissions(std::fs::Permissions::from_mode(PRIVATE)));
    match created {
        Ok(()) => Ok(()),
        // Another process was faster, or the directory is not there, which SQLite will say.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotFound
            ) =>
        {
            Ok(())
        }
        Err(source) => Err(OpenError::Path {
            path: path.to_owned(),
            source,
        }),
    }
}

fn is_busy(error: &OpenError) -> bool {
    match error {
        OpenError::Database { source, .. } => classify(source) == Failure::Busy,
        OpenError::Schema {
            source: sqlx::migrate::MigrateError::Execute(source),
            ..
        } => classify(source) == Failure::Busy,
        _ => false,
    }
}

async fn prepare_once(path: &Path, options: &SqliteStoreOptions) -> Result<(), OpenError> {
    let database = |source| OpenError::Database {
        path: path.to_owned(),
        source,
    };
    let mut connection = connect_options(path, options)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .connect()
        .await
        .map_err(database)?;
    migrations::run(&mut connection)
        .await
        .map_err(|source| OpenError::Schema {
            path: path.to_owned(),
            source,
        })?;
    check_settings(path, &mut connection).await?;
    connection.close().await.map_err(database)
}

async fn check_settings(path: &Path, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    for (setting, query, required) in [
        (
            "journal_mode",
            "SELECT journal_mode FROM pragma_journal_mode",
            "wal",
        ),
        (
            "synchronous",
            "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous",
            "2",
        ),
        (
            "foreign_keys",
            "SELECT CAST(foreign_keys AS TEXT) FROM pragma_foreign_keys",
            "1",
        ),
    ] {
        let actual: String = sqlx::query_scalar(query)
            .fetch_one(&mut *connection)
            .await
            .map_err(|source| OpenError::Database {
                path: path.to_owned(),
                source,
            })?;
        if actual != required {
            return Err(OpenError::Setting {
                path: path.to_owned(),
                setting,
                actual,
                required,
            });
        }
    }
    Ok(())
}
