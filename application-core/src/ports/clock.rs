//! Time and randomness, injected.
//!
//! Invariant: a use case has no other source of either, so a seed and a simulated clock decide a
//! whole run.

use domain_core::identity::{ClaimToken, PublicationAttemptId};
use domain_core::instant::{DatabaseInstant, MonotonicInstant};

/// The process's monotonic clock.
pub trait MonotonicClockPort: Send + Sync {
    /// Now.
    fn now(&self) -> MonotonicInstant;
}

/// The process's wall clock. It stamps acknowledgements and judges nothing: deadlines are
/// monotonic, and leases, ages and horizons are the database's.
pub trait WallClockPort: Send + Sync {
    /// Now, as far as this machine knows.
    fn now(&self) -> DatabaseInstant;
}

/// The process's randomness.
pub trait EntropyPort: Send + Sync {
    /// A token that nobody can guess.
    fn claim_token(&self) -> ClaimToken;
    /// An attempt id that nobody has used.
    fn attempt_id(&self) -> PublicationAttemptId;
    /// Any 64 bits, for jitter.
    fn jitter(&self) -> u64;
}
