//! Tx B and Tx C for many scopes at once: the card `postgresql-scope-window-claim.v1`.
//!
//! Invariant: each record of a window has the same guarantees as one claimed alone, and no record's
//! conflict touches another: it waits for every smaller open record of its ordering scope, and has a
//! fresh token, a journalled attempt and a compare-and-set of its own. A smaller record that commits
//! after its successor was claimed is claimed beside it, by either card.

use super::{BudgetSpentReason, KnownRecord};
use super::{ClaimError, ClaimedDelivery, OutcomeRecord, RecordError, RecordOutcome};
use domain_core::identity::{
    ClaimToken, DeliveryGeneration, EventId, ProducerGeneration, PublicationAttemptId, WorkerId,
};
use std::sync::Arc;
use std::time::Duration;

/// The scopes that a worker looks at first: a range of the first byte of their key. It spares
/// workers each other's locks and decides nothing: overlapping shares are as safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionShare {
    first: u8,
    last: u8,
}

impl PartitionShare {
    /// Every scope.
    pub const WHOLE: Self = Self {
        first: 0,
        last: u8::MAX,
    };

    /// The share of worker `index` among `workers` (1 to 256): neighbouring ranges that differ by
    /// at most one partition. `None` when there is no such worker.
    pub fn of(index: u32, workers: u32) -> Option<Self> {
        if index >= workers || workers > 256 {
            return None;
        }
        let edge = |worker: u32| worker * 256 / workers;
        Some(Self {
            first: u8::try_from(edge(index)).ok()?,
            last: u8::try_from(edge(index + 1) - 1).ok()?,
        })
    }

    /// The least partition.
    pub fn first(self) -> u8 {
        self.first
    }

    /// The greatest partition.
    pub fn last(self) -> u8 {
        self.last
    }
}

/// The identities of one attempt that may be made.
#[derive(Debug, Clone)]
pub struct FreshAttempt {
    /// The fresh token.
    pub token: ClaimToken,
    /// The fresh attempt id.
    pub attempt_id: PublicationAttemptId,
}

/// What a worker asks for in Tx B of a window.
#[derive(Debug, Clone)]
pub struct WindowRequest {
    /// Who asks.
    pub owner: WorkerId,
    /// One for each record that may be claimed; as many permits are held.
    pub attempts: Vec<FreshAttempt>,
    /// The producer runtime that will send.
    pub producer_generation: ProducerGeneration,
    /// The lease of each claim; it outlasts the whole window.
    pub lease: Duration,
    /// What one whole attempt may take; less than this before the deadline means no send.
    pub attempt_budget: Duration,
    /// Attempts that one generation may make.
    pub maximum_attempts: u32,
    /// What this process can send. Rows outside it keep their state and block their scope.
    pub known: Arc<[KnownRecord]>,
    /// Where to look.
    pub share: PartitionShare,
}

/// A row that went to `EXHAUSTED` in Tx B without a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpentDelivery {
    /// The event.
    pub event_id: EventId,
    /// Its generation.
    pub generation: DeliveryGeneration,
    /// Why.
    pub reason: BudgetSpentReason,
}

/// What Tx B of a window did.
#[derive(Debug, Default)]
pub struct WindowClaim {
    /// Claimed rows, each under one of the request's attempts.
    pub claimed: Vec<ClaimedDelivery>,
    /// Rows whose budget had ended.
    pub spent: Vec<SpentDelivery>,
    /// Whether the share was not looked at as a whole since the scan last began: more may be
    /// eligible, and asking again at once goes on from there.
    pub unfinished: bool,
}

/// The transactions of the window card.
#[async_trait::async_trait]
pub trait OutboxWindowPort: Send + Sync {
    /// Claims at most one head of each ordering scope, and any number of reorder-tolerant events,
    /// up to the number of attempts given, and ends spent budgets. A lapsed claim, whose attempt
    /// has no outcome, MUST be reclaimed in a window of its own. A head that cannot be read MUST be
    /// passed over with its scope.
    ///
    /// # Errors
    /// [`ClaimError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError>;

    /// Records outcomes, each by its own compare-and-set, and answers for each in order. A record
    /// whose values the database refuses goes to `HOLD` and touches no other.
    ///
    /// # Errors
    /// [`RecordError`]; MUST be `OutcomeUnknown` when a commit was sent and not answered.
    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_partition_once() {
        for workers in [1, 2, 3, 4, 7, 255, 256] {
            let mut next = 0_u32;
            for index in 0..workers {
                let share = PartitionShare::of(index, workers).expect("share");
                assert_eq!(u32::from(share.first()), next, "{index} of {workers}");
                assert!(share.first() <= share.last());
                next = u32::from(share.last()) + 1;
            }
            assert_eq!(next, 256);
        }
        for (index, workers) in [(0, 0), (1, 1), (0, 257)] {
            assert_eq!(PartitionShare::of(index, workers), None);
        }
        assert_eq!(PartitionShare::of(0, 1), Some(PartitionShare::WHOLE));
    }
}
