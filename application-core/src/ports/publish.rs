//! Publishing one record, and the permit that comes before the claim.
//!
//! Invariant: a permit is taken before a row is claimed and given back after its outcome is
//! recorded, so no more rows are claimed than can be sent (requirement 004 §§15.2, 17.8).

use crate::event::StoredOutboxEvent;
use domain_core::identity::{
    ClaimToken, DeliveryGeneration, EventId, ProducerGeneration, PublicationAttemptId,
};
use domain_core::instant::MonotonicInstant;
use domain_core::publication::PublicationOutcome;
use std::sync::Arc;

/// Gives capacity back when it is dropped.
pub trait PermitGuard: Send + Sync {}

/// The right to have one record under way.
pub struct PublicationPermit {
    generation: ProducerGeneration,
    _guard: Box<dyn PermitGuard>,
}

impl PublicationPermit {
    /// Wraps the provider's own guard.
    pub fn new(generation: ProducerGeneration, guard: Box<dyn PermitGuard>) -> Self {
        Self {
            generation,
            _guard: guard,
        }
    }

    /// The producer runtime that will send under this permit.
    pub fn generation(&self) -> &ProducerGeneration {
        &self.generation
    }
}

impl std::fmt::Debug for PublicationPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PublicationPermit")
            .field(&self.generation)
            .finish()
    }
}

/// Why there is no permit now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionRefusal {
    /// Every permit stayed in use for the admission wait.
    Saturated,
    /// The producer cannot send: not started, stopped by a fault, or the broker is away.
    ProviderNotReady,
    /// The process is stopping.
    Closing,
}

/// The answer to a request for a permit.
#[derive(Debug)]
pub enum Admission {
    /// Go ahead.
    Granted(PublicationPermit),
    /// Claim nothing.
    Refused(AdmissionRefusal),
}

/// The answer to a request for several permits.
#[derive(Debug)]
pub enum Admissions {
    /// One or more, all of one producer generation; each gives its capacity back by itself.
    Granted(Vec<PublicationPermit>),
    /// Claim nothing.
    Refused(AdmissionRefusal),
}

/// Bounds what is under way. A permit stands for one record of the largest compiled size.
#[async_trait::async_trait]
pub trait PublicationAdmissionPort: Send + Sync {
    /// Waits for a permit, at most the configured admission wait.
    async fn admit(&self) -> Admission;

    /// Waits for the first permit, at most the configured admission wait, and takes as many more
    /// as are free, `most` in all.
    async fn admit_up_to(&self, most: std::num::NonZeroU32) -> Admissions;
}

/// Which send of which generation of which event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptIdentity {
    /// The event.
    pub event_id: EventId,
    /// Its delivery generation.
    pub generation: DeliveryGeneration,
    /// The send.
    pub attempt_id: PublicationAttemptId,
    /// The claim it is made under; journals keep only the token's digest.
    pub claim_token: ClaimToken,
}

/// One record to send.
#[derive(Debug, Clone)]
pub struct PublicationRequest {
    /// Which send this is.
    pub attempt: AttemptIdentity,
    /// The stored event, checked against its document.
    pub event: Arc<StoredOutboxEvent>,
    /// After this the outcome is `INDETERMINATE`, whatever comes later.
    pub deadline: MonotonicInstant,
}

/// Sends stored events.
#[async_trait::async_trait]
pub trait OutboxMessagePublishPort: Send + Sync {
    /// Sends one record and waits for the broker's answer until the deadline. There is no error
    /// beside the outcome: everything that happens is one of its four cases, and what cannot be
    /// proved unaccepted MUST be `Indeterminate`. An acknowledgement after the deadline MUST NOT
    /// change the outcome; it MAY become one late observation.
    async fn publish(&self, request: &PublicationRequest) -> PublicationOutcome;
}
