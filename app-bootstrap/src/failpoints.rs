//! Places where a test stops this process for good.
//!
//! Invariant: without the feature `failpoints` nothing here does anything. The points lie around
//! the publisher: `relay::before_publish` is after Tx B, `relay::after_publish` before Tx C.

use application_core::ports::OutboxMessagePublishPort;
use std::sync::Arc;

/// Reads `FAILPOINTS` from the environment for as long as the guard lives.
#[cfg(feature = "failpoints")]
pub fn armed() -> fail::FailScenario<'static> {
    fail::FailScenario::setup()
}

/// Nothing to arm.
#[cfg(not(feature = "failpoints"))]
#[derive(Debug)]
pub struct Unarmed;

/// Nothing to arm.
#[cfg(not(feature = "failpoints"))]
pub fn armed() -> Unarmed {
    Unarmed
}

/// The publisher as it is.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn around(
    publisher: Arc<dyn OutboxMessagePublishPort>,
) -> Arc<dyn OutboxMessagePublishPort> {
    publisher
}

/// The publisher between its two points.
#[cfg(feature = "failpoints")]
pub(crate) fn around(
    publisher: Arc<dyn OutboxMessagePublishPort>,
) -> Arc<dyn OutboxMessagePublishPort> {
    Arc::new(active::Interrupted { inner: publisher })
}

#[cfg(feature = "failpoints")]
mod active {
    use application_core::ports::{OutboxMessagePublishPort, PublicationRequest};
    use domain_core::publication::PublicationOutcome;
    use std::sync::Arc;

    pub(super) struct Interrupted {
        pub(super) inner: Arc<dyn OutboxMessagePublishPort>,
    }

    #[async_trait::async_trait]
    impl OutboxMessagePublishPort for Interrupted {
        async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
            fail::fail_point!("relay::before_publish");
            let outcome = self.inner.publish(request).await;
            tracing::info!("reached relay::after_publish");
            fail::fail_point!("relay::after_publish");
            outcome
        }
    }
}
