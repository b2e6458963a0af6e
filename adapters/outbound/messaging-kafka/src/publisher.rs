//! The producer's ports, whichever generation is at work.
//!
//! Invariant: callers see one producer. A generation is replaced only after every permit of the
//! one before is back, so the generation that granted a permit is the one that sends under it
//! (requirement 004 §16.10).

use crate::supervisor::Shared;
use application_core::ports::{
    Admission, AdmissionRefusal, Admissions, BestEffortMessage, BestEffortPublicationPort,
    LateObservationId, LatePublicationObservation, LatePublicationObservationSource,
    OutboxMessagePublishPort, PublicationAdmissionPort, PublicationRequest,
};
use domain_core::publication::{
    FailureClass, FailureStage, PublicationFailure, PublicationOutcome, RetryDisposition,
};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Admission, publication and late observations of one process.
#[derive(Clone)]
pub struct KafkaPublisher {
    shared: Arc<Shared>,
}

impl KafkaPublisher {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait::async_trait]
impl PublicationAdmissionPort for KafkaPublisher {
    async fn admit(&self) -> Admission {
        let admission = match self.shared.current() {
            Some(generation) => generation.admit().await,
            None => Admission::Refused(AdmissionRefusal::ProviderNotReady),
        };
        match admission {
            // Whatever the generation said, a process that stops has one answer.
            _ if self.shared.is_closing() => Admission::Refused(AdmissionRefusal::Closing),
            admission => admission,
        }
    }

    async fn admit_up_to(&self, most: NonZeroU32) -> Admissions {
        let admissions = match self.shared.current() {
            Some(generation) => generation.admit_up_to(most).await,
            None => Admissions::Refused(AdmissionRefusal::ProviderNotReady),
        };
        match admissions {
            _ if self.shared.is_closing() => Admissions::Refused(AdmissionRefusal::Closing),
            admissions => admissions,
        }
    }
}

#[async_trait::async_trait]
impl OutboxMessagePublishPort for KafkaPublisher {
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome {
        match self.shared.current() {
            Some(generation) => generation.publish(request).await,
            None => not_at_work(),
        }
    }
}

#[async_trait::async_trait]
impl BestEffortPublicationPort for KafkaPublisher {
    async fn publish_best_effort(&self, message: &BestEffortMessage) -> PublicationOutcome {
        match self.shared.current() {
            Some(generation) => generation.publish_best_effort(message).await,
            None => not_at_work(),
        }
    }
}

/// No generation is at work, so nothing was sent.
fn not_at_work() -> PublicationOutcome {
    PublicationOutcome::Rejected(PublicationFailure {
        stage: FailureStage::LocalAdmission,
        class: FailureClass::ClientClosed,
        disposition: RetryDisposition::StopProvider,
    })
}

impl LatePublicationObservationSource for KafkaPublisher {
    fn poll_bounded(&self, maximum: usize) -> Vec<LatePublicationObservation> {
        self.shared.late().poll_bounded(maximum)
    }

    fn acknowledge_persisted(&self, id: LateObservationId) {
        self.shared.late().acknowledge_persisted(id);
    }

    fn release_for_retry(&self, id: LateObservationId) {
        self.shared.late().release_for_retry(id);
    }

    fn dropped(&self) -> u64 {
        self.shared.late().dropped()
    }
}
