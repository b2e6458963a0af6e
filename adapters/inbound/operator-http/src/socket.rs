//! The socket's file.
//!
//! Invariant: one process holds a path, by a lock that ends with it; a file left behind by one that
//! died is replaced, anything that is no socket is left alone; nobody but the owner can connect at
//! any moment; the file is gone when the holder is dropped.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The longest path, in bytes: the system's 107 less what making the file needs.
pub const MAXIMUM_PATH_BYTES: usize = 101;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The system allows no longer one.
    #[error("{} has {} bytes; at most {MAXIMUM_PATH_BYTES} are allowed", path.display(), path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Another process holds the path.
    #[error("{} is held by another process", path.display())]
    Held {
        /// The path.
        path: PathBuf,
    },
    /// Something else lies there, and is left alone.
    #[error("{} is there and is no socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{} cannot be made", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A socket that listens.
#[derive(Debug)]
pub struct LocalSocket {
    pub(crate) listener: UnixListener,
    pub(crate) file: SocketFile,
}

/// The file, for as long as it is ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    _lock: File,
}

impl LocalSocket {
    /// Takes a path and listens on it. Needs a runtime.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        if path.as_os_str().as_bytes().len() > MAXIMUM_PATH_BYTES {
            return Err(SocketError::TooLong {
                path: path.to_owned(),
            });
        }
        let refused = |source| SocketError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent() {
            private_folder()
                .recursive(true)
                .create(folder)
                .map_err(refused)?;
        }
        let lock = lock(path)?;
        remove_stale(path)?;
        let listener = listen(path).map_err(refused)?;
        Ok(Self {
            listener: UnixListener::from_std(listener).map_err(refused)?,
            file: SocketFile {
                path: path.to_owned(),
                _lock: lock,
            },
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Under the lock it is still ours; gone is as good as removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn lock(path: &Path) -> Result<File, SocketError> {
    let refused = |source| SocketError::Io {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(beside(path, ".lock"))
        .map_err(refused)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SocketError::Held {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(refused(source)),
    }
}

/// Whoever left it is gone: the lock is ours.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let refused = |source| SocketError::Io {
        path: path.to_owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(error)),
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map_err(refused),
        Ok(_) => Err(SocketError::NotASocket {
            path: path.to_owned(),
        }),
    }
}

/// Made in a folder of its own and moved, so that it is never seen with other permissions.
fn listen(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let folder = beside(path, ".new");
    let inner = folder.join("s");
    if folder.is_dir() {
        // A process died between the two; the lock is ours.
        let _ = std::fs::remove_file(&inner);
        std::fs::remove_dir(&folder)?;
    }
    private_folder().create(&folder)?;
    let made = std::os::unix::net::UnixListener::bind(&inner).and_then(|listener| {
        std::fs::set_permissions(&inner, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        std::fs::rename(&inner, path)?;
        Ok(listener)
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&inner);
    }
    std::fs::remove_dir(&folder)?;
    made
}
