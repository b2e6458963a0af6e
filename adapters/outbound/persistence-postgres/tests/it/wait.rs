//! Waiting for a condition.
//!
//! Invariant: a wait has a deadline and says what it waited for.

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A few milliseconds of nothing, between two looks at a condition.
#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at a condition that has a deadline"
)]
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// A wait under way, for a loop of the caller's own.
pub(crate) struct Wait {
    what: &'static str,
    began: Instant,
}

impl Wait {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            began: Instant::now(),
        }
    }

    /// Before the next look.
    pub(crate) async fn again(&self) {
        assert!(
            self.began.elapsed() < PATIENCE,
            "waited too long for {}",
            self.what
        );
        pause().await;
    }
}

/// Looks until the condition holds.
pub(crate) async fn until<T>(
    what: &'static str,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let wait = Wait::new(what);
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        wait.again().await;
    }
}
