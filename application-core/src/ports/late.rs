//! Acknowledgements that come after their attempt's outcome was decided.
//!
//! Invariant: a late observation never changes a delivery's state; it may be lost with the
//! process, and correctness does not rest on it (requirement 004 §15.2).

use super::AttemptIdentity;
use crate::Cause;
use domain_core::identity::{DestinationBindingRevision, ProducerGeneration};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{AcceptanceCertainty, ProviderRecordReference, RetryDisposition};

/// Names one observation in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LateObservationId(pub u64);

/// A broker's acknowledgement that came too late, without any payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatePublicationObservation {
    /// Its name in the source.
    pub id: LateObservationId,
    /// The attempt it belongs to.
    pub attempt: AttemptIdentity,
    /// The producer runtime that sent it.
    pub producer_generation: ProducerGeneration,
    /// The binding revision it was sent under.
    pub binding_revision: DestinationBindingRevision,
    /// What the acknowledgement says: `ACCEPTED`, or `ACCEPTED_MISMATCH` for a misroute.
    pub certainty: AcceptanceCertainty,
    /// When this process saw it, by its wall clock.
    pub observed_at: DatabaseInstant,
    /// Where the record is, for people.
    pub record_reference: ProviderRecordReference,
}

impl LatePublicationObservation {
    /// What may be done next: nothing after an acceptance, and only an operator's act after a
    /// misroute.
    pub fn disposition(&self) -> RetryDisposition {
        match self.certainty {
            AcceptanceCertainty::AcceptedMismatch => RetryDisposition::OperatorHold,
            _ => RetryDisposition::NoRetry,
        }
    }
}

/// The provider's bounded queue of late observations. None of its methods blocks.
pub trait LatePublicationObservationSource: Send + Sync {
    /// Leases at most `maximum` observations; each is handed out once until it is released.
    fn poll_bounded(&self, maximum: usize) -> Vec<LatePublicationObservation>;
    /// The observation is durable; forget it.
    fn acknowledge_persisted(&self, id: LateObservationId);
    /// The observation could not be made durable; hand it out again later.
    fn release_for_retry(&self, id: LateObservationId);
    /// Observations that found the queue full, since the start. Not zero degrades readiness.
    fn dropped(&self) -> u64;
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LateWriteReport {
    /// Written now.
    pub appended: usize,
    /// Already there.
    pub duplicates: usize,
    /// Their delivery is not there, or their attempt was never admitted; dropped.
    pub orphaned: usize,
}

/// Why a batch was not written.
#[derive(Debug, thiserror::Error)]
pub enum LateWriteError {
    /// Nothing was written.
    #[error("late observations cannot be written")]
    Unavailable(#[source] Cause),
    /// The batch may have been written; writing it again is harmless.
    #[error("the outcome of writing late observations is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// The append-only attempt journal, as far as late observations go.
#[async_trait::async_trait]
pub trait OutboxAttemptObservationPort: Send + Sync {
    /// Appends a batch in one transaction of its own. A normal return means committed. MUST absorb
    /// duplicates and MUST NOT touch a delivery.
    ///
    /// # Errors
    /// [`LateWriteError`].
    async fn append_late_observations(
        &self,
        observations: &[LatePublicationObservation],
    ) -> Result<LateWriteReport, LateWriteError>;
}
