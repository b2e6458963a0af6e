//! The defects that the checker must find.
//!
//! Invariant: a bug falsifies what a rule of domain-core is told, or one guard that stands in SQL;
//! it never replaces a rule.

/// One planted defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The lease is compared with the start of the transaction, not with the clock under the lock.
    TransactionStartTime,
    /// Candidates are locked with SKIP LOCKED, so that a locked head yields its successor.
    SkipLockedCandidates,
    /// The scan is cut off before eligibility is judged.
    LimitBeforeEligibility,
    /// The found head is locked by key without its predicate.
    LockWithoutPredicate,
    /// The outcome's update does not ask whether the lease lapsed.
    OutcomeIgnoresLease,
    /// The outcome's update does not ask whose token it is.
    OutcomeIgnoresToken,
    /// A reclaim goes on under the lapsed claim's token.
    ReclaimKeepsToken,
    /// The attempt is counted when its outcome is recorded.
    CountAtOutcome,
    /// The freeze reads the admission without FOR UPDATE, so it waits for nobody.
    FreezeWithoutLock,
    /// The append reads the ACTIVE epoch without FOR SHARE.
    AppendReadsEpochUnlocked,
    /// The claim reads the ACTIVE epoch without FOR SHARE.
    ClaimReadsEpochUnlocked,
    /// The remembered start of the open part is stored truth: scan and gate look no further back.
    MarkIsTruth,
    /// A requeue inserts the next generation and leaves the former one CURRENT.
    RequeueKeepsCurrent,
    /// A late acknowledgement records the delivery.
    LateAckChangesState,
    /// An operator's hold of a lapsed claim leaves its attempt open.
    HoldLeavesAttemptOpen,
    /// An ended budget reports what the last attempt saw alone.
    ExhaustionForgetsDoubt,
    /// The record counts as acknowledged once the client has it.
    RecordsAtEnqueue,
}
