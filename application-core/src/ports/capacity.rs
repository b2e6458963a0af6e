//! How full the outbox is.
//!
//! Invariant: one look costs a bounded amount of work, however large the backlog is.

use crate::Cause;
use domain_core::capacity::BacklogSample;

/// Why the backlog could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("the backlog cannot be measured")]
pub struct CapacityError(#[source] pub Cause);

/// Measures the backlog.
#[async_trait::async_trait]
pub trait OutboxCapacityPort: Send + Sync {
    /// One sample; counting MAY stop once it is above `enough`.
    ///
    /// # Errors
    /// [`CapacityError`].
    async fn sample(&self, enough: u64) -> Result<BacklogSample, CapacityError>;
}
