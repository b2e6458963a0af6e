//! The ports: what the use cases need from the outside, in their own words.
//!
//! Invariant: no port names a driver's type, and one method is one transaction that returns an
//! outcome, never a row count. The exception is the caller's own write transaction, which append
//! and inbox take part in.

mod append;
mod authority;
mod best_effort;
mod capacity;
mod clock;
mod codec;
mod consume;
mod delivery;
mod disposition;
mod fence;
mod inbox;
mod late;
mod lifecycle;
mod publish;
mod query;
mod report;
mod retention;
mod timer;
mod transaction;
mod window;

pub use append::{AppendError, AppendPolicy, AppendPolicyError, AppendReceipt, OutboxAppendPort};
pub use authority::{
    ActivationOutcome, AuthorityError, EpochActivation, EpochRecord, FreezeOutcome,
    PublicationAuthorityPort, ResumeOutcome,
};
pub use best_effort::{
    BestEffortMessage, BestEffortObserver, BestEffortPublicationPort, BestEffortReport,
};
pub use capacity::{CapacityError, OutboxCapacityPort};
pub use clock::{EntropyPort, MonotonicClockPort, WallClockPort};
pub use codec::{
    DecodeError, DecodedEnvelope, EncodeError, EnvelopeCodec, PayloadRejection, RejectionRule,
};
pub use consume::{HandlerError, IntegrationEventHandler};
pub use delivery::{
    BacklogError, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    FindAttemptError, KnownRecord, OutboxDeliveryPort, OutcomeRecord, RecordError, RecordOutcome,
    RecordedAttempt, RenewOutcome, RenewRequest, UnknownBacklog, UnknownReason,
};
pub use disposition::{
    Disposed, Disposition, DispositionCommand, DispositionConflict, DispositionError,
    DispositionOutcome, OperatorAct, OutboxDispositionPort,
};
pub use fence::{ClaimFencePort, FenceError, FenceOutcome, FenceScope};
pub use inbox::{InboxDecision, InboxError, InboxStorePort};
pub use late::{
    LateObservationId, LatePublicationObservation, LatePublicationObservationSource,
    LateWriteError, LateWriteReport, OutboxAttemptObservationPort,
};
pub use lifecycle::{
    DrainFact, LifecycleError, PausedGeneration, ProducerLifecyclePort, ProducerMaterialPort,
};
pub use publish::{
    Admission, AdmissionRefusal, Admissions, AttemptIdentity, OutboxMessagePublishPort,
    PermitGuard, PublicationAdmissionPort, PublicationPermit, PublicationRequest,
};
pub use query::{DeliverySummary, OutboxCounts, OutboxQueryPort, QueryError};
pub use report::{RelayReport, RelayReporter, ReportError};
pub use retention::{OutboxRetentionPort, ReapReport, ReapRequest, RetentionError};
pub use timer::TimerPort;
pub use transaction::{
    ResourceError, TransactionError, TransactionPort, TransactionResourcePort, TxFuture,
    WriteTransaction,
};
pub use window::{
    FreshAttempt, OutboxWindowPort, PartitionShare, SpentDelivery, WindowClaim, WindowRequest,
};
