//! One journal a process and file: the in-process guard, the file lock and the latch.
//!
//! Invariant: at most one writer holds a file, keyed by (device, inode) inside the process and by an
//! exclusive advisory lock between processes. A latched file stays claimed for the life of the
//! process, with its descriptor and lock, so that neither this process nor, through a reused inode,
//! another file can be taken for it.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::OpenError;
use crate::place::FileIdentity;

static CLAIMS: Mutex<Option<HashMap<FileIdentity, State>>> = Mutex::new(None);

enum State {
    Held,
    // The descriptor is kept for as long as the process lives and never used again.
    Latched { _descriptor: Arc<File> },
}

/// The right to write one file. Dropping it gives the file free, unless it was latched.
#[derive(Debug)]
pub(crate) struct Claim {
    identity: FileIdentity,
    file: Arc<File>,
}

impl Claim {
    /// Claims a file in this process, then locks it against others.
    pub(crate) fn take(
        path: &Path,
        identity: FileIdentity,
        file: Arc<File>,
    ) -> Result<Claim, OpenError> {
        {
            let mut claims = claims();
            let claims = claims.get_or_insert_default();
            match claims.get(&identity) {
                Some(State::Held) => {
                    return Err(OpenError::AlreadyOpen {
                        path: path.to_owned(),
                    });
                }
                Some(State::Latched { .. }) => {
                    return Err(OpenError::Latched {
                        path: path.to_owned(),
                    });
                }
                None => claims.insert(identity, State::Held),
            };
        }
        let claim = Claim { identity, file };
        match claim.file.try_lock() {
            Ok(()) => Ok(claim),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(OpenError::Lock {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Fails the file closed for the life of this process.
    pub(crate) fn latch(&self) {
        claims().get_or_insert_default().insert(
            self.identity,
            State::Latched {
                _descriptor: Arc::clone(&self.file),
            },
        );
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = claims();
        let claims = claims.get_or_insert_default();
        if matches!(claims.get(&self.identity), Some(State::Held)) {
            // Closing alone is not enough: a process that another thread is just spawning shares the
            // descriptor, and with it the lock, until it executes. A failure leaves the lock to the
            // last closing.
            _ = self.file.unlock();
            claims.remove(&self.identity);
        }
    }
}

fn claims() -> MutexGuard<'static, Option<HashMap<FileIdentity, State>>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}
