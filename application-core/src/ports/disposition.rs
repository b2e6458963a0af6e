//! What an accountable operator does to one delivery.
//!
//! Invariant: the transition and its audit row are one transaction; a live claim is never
//! overridden, and every command names the generation and row version that its author saw
//! (requirement 004 §§18.5–18.6, 19.4–19.5).

use crate::Cause;
use domain_core::delivery::{DeliveryStateName, PublicationWindow};
use domain_core::identity::{
    ActReference, DeliveryGeneration, EventId, OperatorId, ReasonCode, ReasonText, RowVersion,
};
use domain_core::instant::DatabaseInstant;

/// Who acts and why. Whoever fills it has authenticated and authorized the principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorAct {
    /// The principal.
    pub operator: OperatorId,
    /// The deployment's code for the reason.
    pub reason_code: ReasonCode,
    /// The reason in words.
    pub reason: ReasonText,
    /// The incident or change it belongs to.
    pub reference: ActReference,
}

/// What is to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// To `HOLD`, from `READY`, `RETRY_WAIT`, `EXHAUSTED` or a lapsed claim.
    Hold,
    /// To `SKIPPED`, from `EXHAUSTED` or `HOLD`: successors go on without the event.
    Skip {
        /// The business owner's approval.
        approval: ActReference,
    },
    /// To `COMPENSATED`, from `EXHAUSTED` or `HOLD`.
    Compensate {
        /// The business owner's approval.
        approval: ActReference,
        /// The event that takes its place; it MUST be in the same outbox.
        compensating_event: EventId,
    },
    /// From `LEGACY_RECORDED_UNVERIFIED` to `LEGACY_ACCEPTED_UNVERIFIED`.
    AcceptLegacy {
        /// The reconciliation's approval.
        approval: ActReference,
    },
    /// Supersedes an `EXHAUSTED` or `HOLD` generation by a new `READY` one.
    Requeue {
        /// The profile's maximum age and the contract's requeue horizon.
        window: PublicationWindow,
    },
}

impl Disposition {
    /// The stable name, as audited.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Hold => "HOLD",
            Self::Skip { .. } => "SKIP_WITH_GAP",
            Self::Compensate { .. } => "COMPENSATE",
            Self::AcceptLegacy { .. } => "ACCEPT_LEGACY",
            Self::Requeue { .. } => "REMEDIATE_AND_REQUEUE",
        }
    }

    /// The approval that a destructive disposition carries.
    pub fn approval(&self) -> Option<&ActReference> {
        match self {
            Self::Skip { approval }
            | Self::Compensate { approval, .. }
            | Self::AcceptLegacy { approval } => Some(approval),
            Self::Hold | Self::Requeue { .. } => None,
        }
    }
}

/// One operator command on one delivery.
#[derive(Debug, Clone)]
pub struct DispositionCommand {
    /// The event.
    pub event_id: EventId,
    /// The generation that the operator saw as CURRENT.
    pub generation: DeliveryGeneration,
    /// The row version that the operator saw.
    pub row_version: RowVersion,
    /// What is to happen.
    pub disposition: Disposition,
    /// Who and why.
    pub act: OperatorAct,
}

/// What a disposition left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disposed {
    /// The CURRENT generation: the next one after a requeue.
    pub generation: DeliveryGeneration,
    /// Its state.
    pub state: DeliveryStateName,
    /// Its row version.
    pub row_version: RowVersion,
}

/// Why a disposition did not apply. Nothing changed and nothing was audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispositionConflict {
    /// There is no delivery of this event.
    NoDelivery,
    /// Another generation is CURRENT.
    Generation(DeliveryGeneration),
    /// The row was written since.
    RowVersion(RowVersion),
    /// The state has no such disposition.
    State(DeliveryStateName),
    /// A worker's claim is live; fence new claims and wait for its end.
    ClaimLive {
        /// When it lapses at the latest, unless its worker renews it.
        until: DatabaseInstant,
    },
    /// The same event may not be sent again after this.
    HorizonPassed(DatabaseInstant),
    /// A requeue needs an ACTIVE polling epoch.
    NoPollingEpoch,
    /// The compensating event is not in this outbox, or is the event itself.
    NoCompensation,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispositionOutcome {
    /// Done and audited.
    Applied(Disposed),
    /// Refused.
    Conflict(DispositionConflict),
}

/// Why a command has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum DispositionError {
    /// Nothing was changed.
    #[error("the disposition could not be applied")]
    Unavailable(#[source] Cause),
    /// It may have been applied; its row version tells.
    #[error("whether the disposition was applied is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// Applies dispositions.
#[async_trait::async_trait]
pub trait OutboxDispositionPort: Send + Sync {
    /// One transaction: locks the CURRENT row, compares what the operator saw, moves it and
    /// appends to `outbox_disposition_audit`. Leaving a lapsed claim closes its open attempt with
    /// `OUTCOME_OBSERVED(INDETERMINATE)`. Not gated by the write admission.
    ///
    /// # Errors
    /// [`DispositionError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    async fn apply(
        &self,
        command: &DispositionCommand,
    ) -> Result<DispositionOutcome, DispositionError>;
}
