//! The operators' and the upkeep's side of one store.
//!
//! Invariant: every change is one write transaction together with its audit row.

use crate::errors::CommitError;
use crate::retention::Reaped;
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::ports::OperatorAct;
use sqlx::{SqliteConnection, SqlitePool};
use std::sync::Arc;
use std::time::Duration;

/// Dispositions, fences, authority, retention and capacity of one store.
#[derive(Debug, Clone)]
pub struct SqliteControl {
    pub(crate) writer: Writer,
    pub(crate) reads: SqlitePool,
    pub(crate) reaped: Arc<Reaped>,
}

/// How a transaction of this side ended that has no result.
pub(crate) enum Trouble {
    /// Nothing was changed.
    Unavailable(application_core::Cause),
    /// It may have been.
    Unknown(application_core::Cause),
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

impl SqliteControl {
    pub(crate) async fn begin(&self) -> Result<SqliteWriteTransaction, Trouble> {
        Ok(self.writer.begin().await?)
    }

    /// `None` when others held the write lock all the time that the caller would wait.
    pub(crate) async fn begin_within(
        &self,
        wait: Duration,
    ) -> Result<Option<SqliteWriteTransaction>, Trouble> {
        Ok(self.writer.begin_within(wait).await?)
    }
}

/// Commits.
pub(crate) async fn commit(tx: SqliteWriteTransaction) -> Result<(), Trouble> {
    match tx.commit().await {
        Ok(()) => Ok(()),
        Err(CommitError::Unknown(error)) => Err(Trouble::Unknown(Box::new(error))),
        Err(error) => Err(Trouble::Unavailable(Box::new(error))),
    }
}

/// Says who changed what about the authority, and why.
pub(crate) async fn audit(
    connection: &mut SqliteConnection,
    action: &'static str,
    subject: &str,
    act: &OperatorAct,
    approval: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("sql/insert_authority_audit.sql"))
        .bind(action)
        .bind(subject)
        .bind(act.operator.as_str())
        .bind(act.reason_code.as_str())
        .bind(act.reason.as_str())
        .bind(act.reference.as_str())
        .bind(approval)
        .execute(connection)
        .await
        .map(drop)
}
