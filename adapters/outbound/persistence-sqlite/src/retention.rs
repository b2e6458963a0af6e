//! Removing resolved events, and keeping what a legal hold names.
//!
//! Invariant: a batch is one bounded transaction that removes an event with all that tells of it,
//! children first, or leaves all of it (requirement 004 §19.6). Where it stopped is a hint of the
//! store handle's own; a pass from the start to the end looks at every event.

use crate::control::{SqliteControl, Trouble, audit, commit};
use crate::encoding::micros;
use crate::row;
use application_core::ports::{
    OperatorAct, OutboxRetentionPort, ReapReport, ReapRequest, RetentionError,
};
use domain_core::identity::EventId;
use sqlx::SqliteConnection;
use std::sync::{Mutex, PoisonError};

fn failed(trouble: Trouble) -> RetentionError {
    match trouble {
        Trouble::Unavailable(cause) => RetentionError::Unavailable(cause),
        Trouble::Unknown(cause) => RetentionError::OutcomeUnknown(cause),
    }
}

/// What removes one permitted event, children first. A requeue's row refers to its successor by
/// number alone.
const REMOVALS: [&str; 6] = [
    include_str!("sql/permit_removal.sql"),
    include_str!("sql/delete_dispositions.sql"),
    include_str!("sql/delete_observations.sql"),
    include_str!("sql/delete_deliveries.sql"),
    include_str!("sql/delete_event.sql"),
    include_str!("sql/end_removal.sql"),
];

/// Resolved events that one batch looks at, whether they may go or not.
const LOOKED_AT: u32 = 1_024;
const LOOKED_AT_ROWS: usize = LOOKED_AT as usize;

/// A place among the resolved events, the longest resolved first.
#[derive(Debug, Clone)]
struct Place {
    terminal_at: i64,
    event_id: String,
}

impl Place {
    /// Before all of them.
    const START: Self = Self {
        terminal_at: i64::MIN,
        event_id: String::new(),
    };
}

/// Where the last batch stopped.
#[derive(Debug)]
pub(crate) struct Reaped(Mutex<Place>);

impl Default for Reaped {
    fn default() -> Self {
        Self(Mutex::new(Place::START))
    }
}

impl Reaped {
    fn get(&self) -> Place {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.clone()
    }

    fn set(&self, place: Place) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// Removes one event with all that tells of it.
async fn remove(connection: &mut SqliteConnection, event: &str) -> Result<(), sqlx::Error> {
    for statement in REMOVALS {
        sqlx::query(statement)
            .bind(event)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

#[async_trait::async_trait]
impl OutboxRetentionPort for SqliteControl {
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, RetentionError> {
        self.reap_once(request).await.map_err(failed)
    }

    async fn place_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        let statement = include_str!("sql/insert_legal_hold.sql");
        let placed = self
            .hold(statement, "LEGAL_HOLD_PLACED", event_id, act)
            .await
            .map_err(failed)?;
        // An event never leaves while it is held, so whatever was not held and is not there now had
        // nothing to hold.
        if !placed && !self.is_there(event_id).await.map_err(failed)? {
            return Err(RetentionError::NoEvent);
        }
        Ok(placed)
    }

    async fn lift_legal_hold(
        &self,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, RetentionError> {
        let statement = include_str!("sql/delete_legal_hold.sql");
        self.hold(statement, "LEGAL_HOLD_LIFTED", event_id, act)
            .await
            .map_err(failed)
    }
}

impl SqliteControl {
    async fn reap_once(&self, request: &ReapRequest) -> Result<ReapReport, Trouble> {
        let begun_at = self.reaped.get();
        let mut tx = self.begin().await?;
        let seen = sqlx::query(include_str!("sql/select_removable.sql"))
            .bind(micros(request.audit_retention))
            .bind(micros(request.replay_horizon))
            .bind(begun_at.terminal_at)
            .bind(&begun_at.event_id)
            .bind(LOOKED_AT)
            .fetch_all(tx.connection())
            .await?;
        let mut report = ReapReport::default();
        let mut place = begun_at;
        let mut left = seen.len();
        for row in &seen {
            if report.removed >= u64::from(request.limit) {
                break;
            }
            left -= 1;
            place = Place {
                terminal_at: row::value(row, "terminal_at")?,
                event_id: row::value(row, "event_id")?,
            };
            if row::value(row, "removable")? {
                remove(tx.connection(), &place.event_id).await?;
                report.removed += 1;
            }
        }
        if report.removed == 0 {
            tx.rollback().await;
        } else {
            commit(tx).await?;
        }
        report.finished = left == 0 && seen.len() < LOOKED_AT_ROWS;
        self.reaped
            .set(if report.finished { Place::START } else { place });
        Ok(report)
    }

    async fn is_there(&self, event_id: &EventId) -> Result<bool, Trouble> {
        Ok(
            sqlx::query_scalar(include_str!("sql/select_event_exists.sql"))
                .bind(event_id.as_str())
                .fetch_one(&self.reads)
                .await?,
        )
    }

    async fn hold(
        &self,
        statement: &'static str,
        action: &'static str,
        event_id: &EventId,
        act: &OperatorAct,
    ) -> Result<bool, Trouble> {
        let mut tx = self.begin().await?;
        let changed = sqlx::query(statement)
            .bind(event_id.as_str())
            .execute(tx.connection())
            .await?;
        if changed.rows_affected() == 0 {
            tx.rollback().await;
            return Ok(false);
        }
        audit(tx.connection(), action, event_id.as_str(), act, None).await?;
        commit(tx).await?;
        Ok(true)
    }
}
