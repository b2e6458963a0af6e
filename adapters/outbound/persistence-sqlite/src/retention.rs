//! Removing resolved events, and keeping what a legal hold names.
//!
//! Invariant: a batch is one bounded transaction that removes an event with all that tells of it,
//! children first, or leaves all of it (requirement 004 §19.6).

use crate::control::{SqliteControl, Trouble, audit, commit};
use crate::encoding::micros;
use application_core::ports::{
    OperatorAct, OutboxRetentionPort, ReapReport, ReapRequest, RetentionError,
};
use domain_core::identity::EventId;

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
        let mut tx = self.begin().await?;
        let events: Vec<String> = sqlx::query_scalar(include_str!("sql/select_removable.sql"))
            .bind(micros(request.audit_retention))
            .bind(micros(request.replay_horizon))
            .bind(request.limit)
            .fetch_all(tx.connection())
            .await?;
        for event in &events {
            for statement in REMOVALS {
                sqlx::query(statement)
                    .bind(event)
                    .execute(tx.connection())
                    .await?;
            }
        }
        let removed = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let report = ReapReport {
            removed,
            finished: removed < u64::from(request.limit),
        };
        if events.is_empty() {
            tx.rollback().await;
        } else {
            commit(tx).await?;
        }
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
