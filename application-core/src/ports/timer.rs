//! Waiting, injected.
//!
//! Invariant: a use case has no other way to wait, so a simulated timer decides how long a whole
//! run takes.

use std::time::Duration;

/// The process's timer.
#[async_trait::async_trait]
pub trait TimerPort: Send + Sync {
    /// Returns after this long.
    async fn pause(&self, duration: Duration);
}
