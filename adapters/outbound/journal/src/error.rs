//! Errors of opening a journal. Appending has outcomes instead: see [`crate::AppendOutcome`].
//!
//! Invariant: paths and system errors are named, content never is, and no message repeats its
//! source.

use std::io;
use std::path::PathBuf;

use crate::rejection::ReadError;

/// A journal could not be opened. Nothing was written, and nothing was repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The path cannot be opened, created or looked at.
    #[error("{path} cannot be opened")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The operating system's word.
        #[source]
        source: io::Error,
    },
    /// The path leads to a directory, FIFO, device or socket.
    #[error("{path} is {found}, and a journal is a regular file")]
    NotARegularFile {
        /// The path as given.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The file lies on a network file system, whose locks and syncs are not this machine's.
    #[error("{path} lies on {file_system}, and a journal needs a local file system")]
    RemoteFileSystem {
        /// The path as given.
        path: PathBuf,
        /// The file system's name.
        file_system: &'static str,
    },
    /// This process already has the file open for writing, under this or another name.
    #[error("{path} is already open in this process")]
    AlreadyOpen {
        /// The path as given.
        path: PathBuf,
    },
    /// A write or sync of this file failed in this process, which will not open it again.
    #[error("{path} is latched: a write or sync failed, and this process will not open it again")]
    Latched {
        /// The path as given.
        path: PathBuf,
    },
    /// Somebody else holds the file: another process, or an offline reader of this one.
    #[error("{path} is locked by another reader or writer")]
    Locked {
        /// The path as given.
        path: PathBuf,
    },
    /// The lock could not be asked for.
    #[error("{path} cannot be locked")]
    Lock {
        /// The path as given.
        path: PathBuf,
        /// The operating system's word.
        #[source]
        source: io::Error,
    },
    /// The file or its directory could not be synced before reading. The file is latched.
    #[error("{path} could not be synced, so its history cannot be declared valid")]
    Sync {
        /// The path as given.
        path: PathBuf,
        /// The operating system's word.
        #[source]
        source: io::Error,
    },
    /// The history is refused or unreadable.
    #[error("the history of {path} is not valid")]
    History {
        /// The path as given.
        path: PathBuf,
        /// Which record and why.
        #[source]
        source: ReadError,
    },
    /// The writer thread could not be started.
    #[error("the writer thread could not be started")]
    Thread(#[source] io::Error),
}
