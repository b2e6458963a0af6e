//! The ports: what the use cases need from the outside, in their own words.
//!
//! Invariant: no port names a driver's type, and one method is one transaction that returns an
//! outcome, never a row count. The exception is the caller's own write transaction, which append
//! and inbox take part in.

mod append;
mod clock;
mod codec;
mod consume;
mod delivery;
mod inbox;
mod late;
mod publish;
mod query;
mod report;
mod timer;
mod transaction;

pub use append::{AppendError, AppendPolicy, AppendPolicyError, AppendReceipt, OutboxAppendPort};
pub use clock::{EntropyPort, MonotonicClockPort, WallClockPort};
pub use codec::{
    DecodeError, DecodedEnvelope, EncodeError, EnvelopeCodec, PayloadRejection, RejectionRule,
};
pub use consume::{HandlerError, IntegrationEventHandler};
pub use delivery::{
    BacklogError, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    FindAttemptError, KnownRecord, OutboxDeliveryPort, OutcomeRecord, RecordError, RecordOutcome,
    RecordedAttempt, UnknownBacklog, UnknownReason,
};
pub use inbox::{InboxDecision, InboxError, InboxStorePort};
pub use late::{
    LateObservationId, LatePublicationObservation, LatePublicationObservationSource,
    LateWriteError, LateWriteReport, OutboxAttemptObservationPort,
};
pub use publish::{
    Admission, AdmissionRefusal, AttemptIdentity, OutboxMessagePublishPort, PermitGuard,
    PublicationAdmissionPort, PublicationPermit, PublicationRequest,
};
pub use query::{DeliverySummary, OutboxCounts, OutboxQueryPort, QueryError};
pub use report::{RelayReport, RelayReporter, ReportError};
pub use timer::TimerPort;
pub use transaction::{
    ResourceError, TransactionError, TransactionPort, TransactionResourcePort, TxFuture,
    WriteTransaction,
};
