//! From the journal's outcomes to the words of the publish port.
//!
//! Invariant: `Rejected` is said only where the record is certainly not in the file. A journal that
//! takes no more records stops the provider instead of spending the records' budgets.

use domain_core::publication::{FailureClass, FailureStage, PublicationFailure, RetryDisposition};

use crate::append::Refusal;

/// The deadline passed before the journal answered; the record may still be committed.
pub(super) const MISSED_DEADLINE: PublicationFailure = PublicationFailure {
    stage: FailureStage::Deadline,
    class: FailureClass::DeadlineExceeded,
    disposition: RetryDisposition::RetryWithinBudget,
};

/// The deadline had passed before anything was appended.
pub(super) const NO_TIME_LEFT: PublicationFailure = PublicationFailure {
    stage: FailureStage::LocalAdmission,
    class: FailureClass::DeadlineExceeded,
    disposition: RetryDisposition::RetryWithinBudget,
};

/// The batch failed while it was written or synced.
pub(super) const UNCERTAIN: PublicationFailure = PublicationFailure {
    stage: FailureStage::BrokerAck,
    class: FailureClass::ProviderFatal,
    disposition: RetryDisposition::StopProvider,
};

/// The journal was latched before the record's turn.
pub(super) const LATCHED: PublicationFailure = PublicationFailure {
    stage: FailureStage::Provider,
    class: FailureClass::ProviderFatal,
    disposition: RetryDisposition::StopProvider,
};

/// The stored record cannot be a broker's record.
pub(super) const UNSUITABLE: PublicationFailure = PublicationFailure {
    stage: FailureStage::Serialization,
    class: FailureClass::InvalidPayload,
    disposition: RetryDisposition::NoRetry,
};

/// The journal refused the record before it took a sequence.
pub(super) fn refused(refusal: &Refusal) -> PublicationFailure {
    let (stage, class, disposition) = match refusal {
        Refusal::Schema(_) => return UNSUITABLE,
        Refusal::Oversize { .. } => (
            FailureStage::Serialization,
            FailureClass::RecordTooLarge,
            RetryDisposition::NoRetry,
        ),
        Refusal::QueueFull => (
            FailureStage::LocalAdmission,
            FailureClass::BufferExhausted,
            RetryDisposition::RetryWithinBudget,
        ),
        Refusal::Closed => (
            FailureStage::Shutdown,
            FailureClass::ClientClosed,
            RetryDisposition::StopProvider,
        ),
        Refusal::Exhausted => (
            FailureStage::Provider,
            FailureClass::ProviderFatal,
            RetryDisposition::StopProvider,
        ),
    };
    PublicationFailure {
        stage,
        class,
        disposition,
    }
}
