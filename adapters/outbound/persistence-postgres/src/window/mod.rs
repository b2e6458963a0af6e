//! The window claim card's transactions: Tx B for many scopes, Tx C for many outcomes.
//!
//! Invariant: each row stands under the same guards as one claimed or recorded alone; statements
//! answer with the keys they changed, so one record's conflict is its own.

mod claim;
mod record;

use crate::delivery::{Places, PostgresDeliveries};
use crate::errors::Abort;
use crate::session::Sessions;
use application_core::ports::{
    ClaimError, OutboxWindowPort, OutcomeRecord, RecordError, RecordOutcome, WindowClaim,
    WindowRequest,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The window card's side of one store.
#[derive(Clone)]
pub struct PostgresWindows {
    sessions: Arc<Sessions>,
    /// Claims one lapsed row at a time.
    alone: PostgresDeliveries,
    places: Arc<Places>,
    /// Whether the next window that finds a lapsed claim takes it first.
    lapsed_first: Arc<AtomicBool>,
}

impl PostgresWindows {
    pub(crate) fn new(alone: PostgresDeliveries) -> Self {
        Self {
            sessions: Arc::clone(&alone.sessions),
            places: Arc::clone(&alone.places),
            alone,
            lapsed_first: Arc::new(AtomicBool::new(true)),
        }
    }
}

#[async_trait::async_trait]
impl OutboxWindowPort for PostgresWindows {
    async fn claim_window(&self, request: &WindowRequest) -> Result<WindowClaim, ClaimError> {
        if request.attempts.is_empty() {
            return Ok(WindowClaim::default());
        }
        let mut repeats = self.sessions.repeats();
        loop {
            match self.claim_once(request).await {
                Ok(claim) => return Ok(claim),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(ClaimError::Unavailable(Box::new(fault))),
            }
        }
    }

    async fn record_window(
        &self,
        records: &[OutcomeRecord],
    ) -> Result<Vec<RecordOutcome>, RecordError> {
        self.record(records).await
    }
}
