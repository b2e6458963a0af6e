//! The one failure that the demo plants, so that a retry can be seen.
//!
//! Invariant: it rejects the first attempt of one event before anything is sent, and does nothing
//! else.

use application_core::ports::{OutboxMessagePublishPort, PublicationRequest};
use domain_core::identity::EventId;
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rejects one attempt of one event.
pub(super) struct FailsOnce {
    inner: Arc<dyn OutboxMessagePublishPort>,
    event: EventId,
    failed: AtomicBool,
}

impl FailsOnce {
    /// Around `inner`, for `event`.
    pub(super) fn new(inner: Arc<dyn OutboxMessagePublishPort>, event: EventId) -> Self {
        Self {
            inner,
            event,
            failed: AtomicBool::new(false),
        }
    }
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for FailsOnce {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        if request.attempt.event_id == self.event && !self.failed.swap(true, Ordering::Relaxed) {
            return PublicationOutcome::Rejected(PublicationFailure {
                stage: FailureStage::LocalAdmission,
                class: FailureClass::BrokerUnavailable,
                disposition: RetryDisposition::RetryWithinBudget,
            });
        }
        self.inner.publish(request).await
    }
}
