//! The relay's side of the store: Tx B, Tx C and the look-up after a lost commit reply.
//!
//! Invariant: each method is one READ COMMITTED transaction (or the store's single-writer
//! equivalent) judged by the database clock; 40001 and 40P01 are repeated inside and never count
//! as an attempt's failure. The guards of `domain_core::delivery` stand again in SQL.

use super::AttemptIdentity;
use crate::Cause;
use crate::contract::ContractKey;
use crate::event::StoredOutboxEvent;
use domain_core::delivery::DeliveryStateName;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    ClaimToken, DeliveryGeneration, DestinationBindingRevision, EventId, LogicalDestinationId,
    ProducerGeneration, PublicationAttemptId, WorkerId,
};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::{FailureClass, FailureStage, PublicationOutcome, RelayDecision};
use std::sync::Arc;
use std::time::Duration;

/// One combination of contract, schema and binding that this process can send.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownRecord {
    /// Contract and version.
    pub contract: ContractKey,
    /// The payload schema's hash.
    pub payload_schema: Sha256Digest,
    /// The destination.
    pub destination: LogicalDestinationId,
    /// The binding revision.
    pub binding_revision: DestinationBindingRevision,
}

/// What a worker asks for in Tx B.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Who asks.
    pub owner: WorkerId,
    /// The fresh token.
    pub token: ClaimToken,
    /// The fresh attempt id, journalled as `ATTEMPT_ADMITTED`.
    pub attempt_id: PublicationAttemptId,
    /// The producer runtime that will send.
    pub producer_generation: ProducerGeneration,
    /// The claim's lease.
    pub lease: Duration,
    /// What one whole attempt may take; less than this before the deadline means no send.
    pub attempt_budget: Duration,
    /// Attempts that one generation may make.
    pub maximum_attempts: u32,
    /// What this process can send. Rows outside it keep their state and block their scope.
    pub known: Arc<[KnownRecord]>,
}

/// A row that this worker now holds.
#[derive(Debug, Clone)]
pub struct ClaimedDelivery {
    /// The attempt that was admitted.
    pub attempt: AttemptIdentity,
    /// Who holds it.
    pub owner: WorkerId,
    /// The event.
    pub event: Arc<StoredOutboxEvent>,
    /// When the claim lapses, by the database clock.
    pub claim_until: DatabaseInstant,
    /// Claims of this generation, this one included.
    pub claim_count: u32,
    /// Publication attempts of this generation, this one included.
    pub attempt_count: u32,
}

/// Why a row went to `EXHAUSTED` in Tx B without a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetSpentReason {
    /// The automatic deadline passed or no whole attempt fits before it.
    Deadline,
    /// All attempts were used.
    Attempts,
}

impl BudgetSpentReason {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Attempts => "attempts",
        }
    }

    /// Class and stage that the delivery is left with: what ended the automation. How its attempts
    /// ended is in the journal.
    pub fn failure(self) -> (FailureClass, FailureStage) {
        match self {
            Self::Deadline => (FailureClass::DeadlineExceeded, FailureStage::Deadline),
            // Used-up attempts end a lapsed claim alone.
            Self::Attempts => (FailureClass::AttemptAbandoned, FailureStage::Deadline),
        }
    }
}

/// What Tx B did.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// One row is claimed and its attempt is journalled.
    Claimed(Box<ClaimedDelivery>),
    /// One row was moved to `EXHAUSTED`; nothing is to be sent for it.
    BudgetSpent {
        /// The event.
        event_id: EventId,
        /// Its generation.
        generation: DeliveryGeneration,
        /// Why.
        reason: BudgetSpentReason,
    },
    /// No eligible row.
    Nothing,
    /// No eligible row among those looked at, and there are more: asking again at once goes on
    /// from there.
    Unfinished,
}

/// Why Tx B has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Nothing was claimed.
    #[error("nothing could be claimed")]
    Unavailable(#[source] Cause),
    /// The claim may have been committed: look it up by token and attempt id.
    #[error("the outcome of the claim is unknown")]
    OutcomeUnknown(#[source] Cause),
    /// A stored row breaks a rule of the schema, and no other head was left to claim.
    #[error("a stored row cannot be read: {what}")]
    Corrupt {
        /// Which row and rule, without its content.
        what: String,
    },
}

/// What a worker asks for in Tx C.
#[derive(Debug, Clone)]
pub struct OutcomeRecord {
    /// Which attempt ended.
    pub attempt: AttemptIdentity,
    /// Who held it.
    pub owner: WorkerId,
    /// The producer runtime that sent.
    pub producer_generation: ProducerGeneration,
    /// The binding revision it was sent under.
    pub binding_revision: DestinationBindingRevision,
    /// What happened.
    pub outcome: PublicationOutcome,
    /// The transition asked for.
    pub decision: RelayDecision,
}

/// What Tx C did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOutcome {
    /// The outcome is journalled and the delivery moved.
    Recorded(DeliveryStateName),
    /// The claim lapsed or is another worker's: nothing changed, nothing was journalled.
    Stale,
}

/// Why Tx C has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Nothing was recorded.
    #[error("the outcome could not be recorded")]
    Unavailable(#[source] Cause),
    /// The outcome may have been recorded: look it up by token and attempt id.
    #[error("whether the outcome was recorded is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// What a worker asks for when its lease may end too soon.
#[derive(Debug, Clone)]
pub struct RenewRequest {
    /// The attempt under way.
    pub attempt: AttemptIdentity,
    /// Who holds it.
    pub owner: WorkerId,
    /// The new lease, from the database's now.
    pub lease: Duration,
}

/// What became of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The same token holds the row until then; nothing else changed.
    Renewed(DatabaseInstant),
    /// The claim lapsed or is another worker's: nothing changed.
    Stale,
}

/// What the store knows of an attempt after a lost commit reply.
#[derive(Debug)]
pub enum RecordedAttempt {
    /// No such attempt was admitted: Tx B did not happen.
    Unknown,
    /// Admitted, and still held under the token: Tx B happened, Tx C did not.
    Open(Box<ClaimedDelivery>),
    /// The attempt's own outcome is journalled: Tx C happened, and the delivery stands here.
    Closed(DeliveryStateName),
    /// Admitted, but the claim is not this token's any more.
    Lost,
}

/// Why the look-up failed.
#[derive(Debug, thiserror::Error)]
pub enum FindAttemptError {
    /// Nothing is known.
    #[error("the attempt cannot be looked up")]
    Unavailable(#[source] Cause),
    /// The row cannot be read.
    #[error("a stored row cannot be read: {what}")]
    Corrupt {
        /// Which row and rule, without its content.
        what: String,
    },
}

/// Why this process cannot send a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnknownReason {
    /// The contract or its version is not in the catalog.
    ContractVersion,
    /// The catalog has the version with another schema.
    SchemaHash,
    /// The destination has no binding of that revision.
    BindingRevision,
    /// The stored row breaks a rule of the schema, so Tx B passes over it and its scope waits.
    /// Only heads that are due are looked at, the oldest few of them, so the count is a lower
    /// bound; it is zero only when Tx B can read what it meets first.
    Unreadable,
}

impl UnknownReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [
        Self::ContractVersion,
        Self::SchemaHash,
        Self::BindingRevision,
        Self::Unreadable,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContractVersion => "contract-version",
            Self::SchemaHash => "schema-hash",
            Self::BindingRevision => "binding-revision",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Unresolved rows that this process cannot send, by reason. Not empty degrades relay readiness.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnknownBacklog {
    /// Rows by reason; a row counts under the first reason that applies.
    pub by_reason: std::collections::BTreeMap<UnknownReason, u64>,
}

impl UnknownBacklog {
    /// Whether this process can send every unresolved row.
    pub fn is_empty(&self) -> bool {
        self.by_reason.values().all(|count| *count == 0)
    }
}

/// Why the backlog could not be counted.
#[derive(Debug, thiserror::Error)]
#[error("the backlog cannot be counted")]
pub struct BacklogError(#[source] pub Cause);

/// The relay's transactions.
#[async_trait::async_trait]
pub trait OutboxDeliveryPort: Send + Sync {
    /// Tx B: claims the head of one ordering scope and journals `ATTEMPT_ADMITTED`, or moves one
    /// head whose budget is spent to `EXHAUSTED`. Reclaiming a lapsed claim closes its open
    /// attempt with `OUTCOME_OBSERVED(INDETERMINATE)` in the same transaction. A head that cannot
    /// be read MUST be passed over, with its scope; [`Self::count_unknown`] reports it.
    ///
    /// # Errors
    /// [`ClaimError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError>;

    /// Tx C: journals the outcome and moves the delivery, if token, owner and lease still hold.
    ///
    /// # Errors
    /// [`RecordError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError>;

    /// Extends a live claim under its own token; the attempt stays the same one.
    ///
    /// # Errors
    /// [`RecordError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError>;

    /// What is known of an attempt, by token and attempt id.
    ///
    /// # Errors
    /// [`FindAttemptError`].
    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError>;

    /// Counts unresolved rows that a process knowing only `known` cannot send, and due heads that
    /// it knows and cannot read.
    ///
    /// # Errors
    /// [`BacklogError`].
    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError>;
}
