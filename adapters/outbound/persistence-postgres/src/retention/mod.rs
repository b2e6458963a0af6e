//! Removing resolved events, and keeping what a legal hold names.
//!
//! Invariant: one batch is one bounded READ COMMITTED transaction that removes an event with all
//! that tells of it, children first, or leaves all of it (requirement 004 §19.6). A hold is placed
//! or lifted together with its audit row.

mod reap;

use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access, Sessions};
use application_core::ports::{
    OperatorAct, OutboxRetentionPort, ReapReport, ReapRequest, RetentionError,
};
use domain_core::identity::EventId;
use std::sync::{Arc, Mutex, PoisonError};

/// Retention on one store, to be run as its maintenance role.
#[derive(Clone)]
pub struct PostgresRetention {
    pub(crate) sessions: Arc<Sessions>,
    /// The event id that the last batch looked at last; a pass goes through the primary key in
    /// order and ends where it is used up. It is a hint: a lost or foreign place costs a look, and
    /// every condition is judged under the rows' locks. Retention has no index of its own, since
    /// each append, or each outcome, would have to maintain it.
    place: Arc<Mutex<Option<String>>>,
}

type RetentionAbort = Abort<RetentionError>;

fn unavailable(fault: DatabaseFault) -> RetentionError {
    RetentionError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> RetentionError {
    RetentionError::OutcomeUnknown(Box::new(fault))
}

fn failed(error: sqlx::Error) -> RetentionAbort {
    Abort::of(error, unavailable)
}

#[async_trait::async_trait]
impl OutboxRetentionPort for PostgresRetention {
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, RetentionError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.reap_once(request).await {
                Ok(report) => return Ok(report),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(unavailable(fault)),
            }
        }
    }

    async fn place_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        self.change_hold(include_str!("../sql/place_legal_hold.sql"), event_id, act)
            .await
    }

    async fn lift_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        self.change_hold(include_str!("../sql/lift_legal_hold.sql"), event_id, act)
            .await
    }
}

impl PostgresRetention {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self {
            sessions,
            place: Arc::default(),
        }
    }

    fn place(&self) -> Option<String> {
        self.place
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn go_on_after(&self, place: Option<String>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    async fn change_hold(
        &self,
        statement: &'static str,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.change_hold_once(statement, event_id, act).await {
                Ok(changed) => return Ok(changed),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(_)) if repeats.again() => {}
                Err(Abort::Again(fault)) => return Err(unavailable(fault)),
            }
        }
    }

    async fn change_hold_once(
        &self,
        statement: &'static str,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionAbort> {
        let mut tx = self
            .sessions
            .begin(Access::RELAY)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let audited = sqlx::query(statement)
            .bind(event_id.as_str())
            .bind(act.operator.as_str())
            .bind(act.reason_code.as_str())
            .bind(act.reason.as_str())
            .bind(act.reference.as_str())
            .execute(&mut *tx)
            .await
            .map_err(|error| {
                let fault = DatabaseFault::from(error);
                if has_no_event(&fault) {
                    Abort::Failed(RetentionError::NoEvent)
                } else {
                    Abort::of(fault, unavailable)
                }
            })?;
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(audited.rows_affected() == 1)
    }
}

/// The hold's foreign key found no event, perhaps after it waited for a batch that removed it.
fn has_no_event(fault: &DatabaseFault) -> bool {
    matches!(
        fault,
        DatabaseFault::Answered { sqlstate, constraint: Some(constraint), .. }
            if sqlstate == "23503" && constraint == "outbox_legal_hold_event_fkey"
    )
}
