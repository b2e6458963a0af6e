//! The process's own clock and randomness, behind the core's ports.
//!
//! Invariant: the clock never goes backwards; tokens come from the operating system's generator.

use application_core::ports::{EntropyPort, MonotonicClockPort};
use domain_core::identity::{ClaimToken, PublicationAttemptId};
use domain_core::instant::MonotonicInstant;
use std::time::Instant;
use uuid::Uuid;

/// Time since the clock was made.
#[derive(Debug, Clone, Copy)]
pub struct ProcessClock {
    origin: Instant,
}

impl ProcessClock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The point of the process's own clock that a reading of this one stands for.
    pub fn origin(&self) -> Instant {
        self.origin
    }
}

impl MonotonicClockPort for ProcessClock {
    fn now(&self) -> MonotonicInstant {
        MonotonicInstant::since_origin(self.origin.elapsed())
    }
}

/// Random tokens, time-ordered attempt ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEntropy;

impl EntropyPort for ProcessEntropy {
    fn claim_token(&self) -> ClaimToken {
        ClaimToken::from_random(*Uuid::new_v4().as_bytes())
    }

    fn attempt_id(&self) -> PublicationAttemptId {
        PublicationAttemptId::parse(Uuid::now_v7().to_string())
            .expect("a UUID's text is within the grammar")
    }

    fn jitter(&self) -> u64 {
        Uuid::new_v4().as_u64_pair().1
    }
}
