//! The process's own clock, timer and randomness, behind the core's ports.
//!
//! Invariant: the clock never goes backwards; tokens come from the operating system's generator.

use application_core::ports::{EntropyPort, MonotonicClockPort, TimerPort};
use domain_core::identity::{ClaimToken, PublicationAttemptId};
use domain_core::instant::MonotonicInstant;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The origin that all monotonic instants of this process share: a deadline that one part sets is
/// judged by another.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Time since the process's one origin.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessClock;

impl MonotonicClockPort for ProcessClock {
    fn now(&self) -> MonotonicInstant {
        MonotonicInstant::since_origin(ORIGIN.elapsed())
    }
}

/// The runtime's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTimer;

#[async_trait::async_trait]
impl TimerPort for ProcessTimer {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one implementation of the timer port"
    )]
    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
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
