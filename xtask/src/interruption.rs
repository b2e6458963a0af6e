//! Being told to stop.
//!
//! Invariant: once watched, SIGINT and SIGTERM no longer end this process by themselves, so
//! that whoever watches has to look, and can clean up first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Whether SIGINT or SIGTERM has arrived.
#[derive(Clone)]
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Catches both signals from now on.
    pub(crate) fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("catch signals")?;
        }
        Ok(Self(flag))
    }

    /// Whether one has arrived.
    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// One that no signal reaches.
    #[cfg(test)]
    pub(crate) fn unwatched() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// What a signal does.
    #[cfg(test)]
    pub(crate) fn happen(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
