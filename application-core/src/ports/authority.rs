//! The publication epoch and the write admission.
//!
//! Invariant: one epoch at most is ACTIVE and an activation waits for every append that read the
//! earlier one; a frozen store has no business write transaction under way (requirement 004
//! §§27.1, 30.5). Lock order: write admission, then epoch, then deliveries by key.

use super::OperatorAct;
use crate::Cause;
use domain_core::authority::{EpochState, WriteAdmission};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ActReference, PublicationEpoch, RowVersion};
use std::time::Duration;

/// An epoch as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRecord {
    /// Its number.
    pub epoch: PublicationEpoch,
    /// Who may publish its events.
    pub authority: DispatchAuthority,
    /// Where it stands.
    pub state: EpochState,
    /// Its row version.
    pub row_version: RowVersion,
}

/// What is to be activated.
#[derive(Debug, Clone)]
pub struct EpochActivation {
    /// The epoch that the operator saw as ACTIVE, if one was.
    pub expected_active: Option<PublicationEpoch>,
    /// The PREPARED epoch.
    pub epoch: PublicationEpoch,
    /// Its row version as the operator saw it.
    pub row_version: RowVersion,
    /// How long to wait for appends and claims under way, at most.
    pub wait: Duration,
    /// Who approved it.
    pub approval: ActReference,
    /// Who and why.
    pub act: OperatorAct,
}

/// What became of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivationOutcome {
    /// It is ACTIVE; the earlier one is RETIRED.
    Activated,
    /// Another epoch is ACTIVE than the operator saw, or none is.
    ActiveDiffers(Option<PublicationEpoch>),
    /// The epoch is not PREPARED at that row version.
    NotPrepared,
    /// Appends or claims under way did not end in time; nothing changed.
    TimedOut,
}

/// What became of a freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreezeOutcome {
    /// No business write transaction is under way and none begins.
    Frozen(WriteAdmission),
    /// Earlier writers did not end in time; business writes go on under the next generation.
    TimedOut(WriteAdmission),
    /// The admission is not the OPEN one of that generation; nothing changed.
    Conflict(WriteAdmission),
}

/// What became of a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// Business writes go on.
    Open(WriteAdmission),
    /// The admission is not the FROZEN one of that generation; nothing changed.
    Conflict(WriteAdmission),
}

/// Why authority could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Nothing was changed. After a freeze that failed midway the admission may stand at FREEZING;
    /// [`PublicationAuthorityPort::thaw`] ends that.
    #[error("the publication authority cannot be reached")]
    Unavailable(#[source] Cause),
    /// It may have been changed; read it.
    #[error("whether the publication authority was changed is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// Reads and changes who may write and who may publish. None of it is gated by the admission.
#[async_trait::async_trait]
pub trait PublicationAuthorityPort: Send + Sync {
    /// The ACTIVE epoch.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn active_epoch(&self) -> Result<Option<EpochRecord>, AuthorityError>;

    /// Describes the next epoch, PREPARED; its number follows the greatest there is.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn prepare_epoch(
        &self,
        authority: DispatchAuthority,
        settings: Option<Sha256Digest>,
    ) -> Result<EpochRecord, AuthorityError>;

    /// Retires the ACTIVE epoch and activates another, in one transaction that waits for every
    /// append and claim that holds the ACTIVE row.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn activate_epoch(
        &self,
        activation: &EpochActivation,
    ) -> Result<ActivationOutcome, AuthorityError>;

    /// The write admission.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn write_admission(&self) -> Result<WriteAdmission, AuthorityError>;

    /// Announces, so that new writers refuse at once, then waits for the earlier ones.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn freeze(
        &self,
        generation: i64,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<FreezeOutcome, AuthorityError>;

    /// Lets business writes go on after a freeze of that generation.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn resume(
        &self,
        generation: i64,
        act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError>;

    /// Reopens an admission whose freeze was cut off between its two transactions.
    ///
    /// # Errors
    /// [`AuthorityError`].
    async fn thaw(
        &self,
        generation: i64,
        act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError>;
}
