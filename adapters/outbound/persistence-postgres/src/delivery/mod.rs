//! The relay's transactions: Tx B, Tx C, the look-up after a lost commit reply and the late
//! observations' journal.
//!
//! Invariant: each is one READ COMMITTED transaction, whatever the session's default; 40001 and
//! 40P01 repeat it inside, bounded and counted, and never count as an attempt's failure.

mod backlog;
mod claim;
mod find;
mod heads;
mod judge;
mod lane;
mod late;
mod pace;
mod record;
mod renew;
mod scan;

pub(crate) use claim::{ClaimAbort, unavailable as unclaimed, unknown as claim_unknown};
pub(crate) use scan::{Found, FoundHead, Places, Search};

use crate::errors::{Abort, DatabaseFault};
use crate::rows::ReadError;
use crate::session::Sessions;
use application_core::ports::{
    BacklogError, ClaimError, ClaimOutcome, ClaimRequest, FindAttemptError, KnownRecord,
    LatePublicationObservation, LateWriteError, LateWriteReport, OutboxAttemptObservationPort,
    OutboxDeliveryPort, OutcomeRecord, RecordError, RecordOutcome, RecordedAttempt, RenewOutcome,
    RenewRequest, UnknownBacklog, UnknownReason,
};
use domain_core::identity::{ClaimToken, PublicationAttemptId};
use std::sync::Arc;

/// The relay's side of one store.
#[derive(Clone)]
pub struct PostgresDeliveries {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) places: Arc<Places>,
}

impl PostgresDeliveries {
    pub(crate) fn new(sessions: Arc<Sessions>, places: Arc<Places>) -> Self {
        Self { sessions, places }
    }

    /// Transactions that were repeated since the store was opened, for a metric.
    pub fn repeated_transactions(&self) -> u64 {
        self.sessions.repeated()
    }
}

fn uncounted(fault: DatabaseFault) -> BacklogError {
    BacklogError(Box::new(fault))
}

#[async_trait::async_trait]
impl OutboxDeliveryPort for PostgresDeliveries {
    async fn claim_next(&self, request: &ClaimRequest) -> Result<ClaimOutcome, ClaimError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.claim_once(request).await {
                Ok(outcome) => return Ok(outcome),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(ClaimError::Unavailable(Box::new(fault))),
            }
        }
    }

    async fn record_outcome(&self, record: &OutcomeRecord) -> Result<RecordOutcome, RecordError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.record_once(record).await {
                Ok(outcome) => return Ok(outcome),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(RecordError::Unavailable(Box::new(fault))),
            }
        }
    }

    async fn renew(&self, request: &RenewRequest) -> Result<RenewOutcome, RecordError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.renew_once(request).await {
                Ok(outcome) => return Ok(outcome),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(RecordError::Unavailable(Box::new(fault))),
            }
        }
    }

    async fn find_attempt(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        self.find(token, attempt_id).await
    }

    async fn count_unknown(&self, known: &[KnownRecord]) -> Result<UnknownBacklog, BacklogError> {
        let mut backlog = self.backlog(known).await.map_err(uncounted)?;
        match self.count_unreadable(known).await {
            Ok(0) => {}
            Ok(count) => drop(backlog.by_reason.insert(UnknownReason::Unreadable, count)),
            Err(ReadError::Database(fault)) => return Err(uncounted(fault)),
            Err(ReadError::Corrupt(what)) => return Err(BacklogError(what.into())),
        }
        Ok(backlog)
    }
}

#[async_trait::async_trait]
impl OutboxAttemptObservationPort for PostgresDeliveries {
    async fn append_late_observations(
        &self,
        observations: &[LatePublicationObservation],
    ) -> Result<LateWriteReport, LateWriteError> {
        if observations.is_empty() {
            return Ok(LateWriteReport::default());
        }
        let mut repeats = self.sessions.repeats();
        loop {
            match self.write_late(observations).await {
                Ok(report) => return Ok(report),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => {
                    return Err(LateWriteError::Unavailable(Box::new(fault)));
                }
            }
        }
    }
}
