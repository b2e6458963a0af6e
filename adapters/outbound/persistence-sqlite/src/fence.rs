//! The durable claim fence.
//!
//! Invariant: a fence is changed under the write lock, so no claim is under way beside it.

use crate::control::{SqliteControl, Trouble, audit, commit};
use application_core::ports::{ClaimFencePort, FenceError, FenceOutcome, FenceScope, OperatorAct};
use domain_core::hashing::PartitionKey;
use domain_core::identity::{EventId, LogicalDestinationId};
use sqlx::Row as _;

/// Fences that stand at once; more belong into a wider one.
const MAXIMUM: u32 = 256;

fn failed(trouble: Trouble) -> FenceError {
    match trouble {
        Trouble::Unavailable(cause) => FenceError::Unavailable(cause),
        Trouble::Unknown(cause) => FenceError::OutcomeUnknown(cause),
    }
}

#[async_trait::async_trait]
impl ClaimFencePort for SqliteControl {
    async fn raise(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        self.raise_once(scope, act).await.map_err(failed)
    }

    async fn lift(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        self.lift_once(scope, act).await.map_err(failed)
    }

    async fn standing(&self) -> Result<Vec<FenceScope>, FenceError> {
        let rows = sqlx::query(include_str!("sql/select_fences.sql"))
            .fetch_all(&self.reads)
            .await
            .map_err(|error| FenceError::Unavailable(Box::new(error)))?;
        rows.iter()
            .map(|row| {
                let text = |column: &str| {
                    row.try_get::<String, _>(column)
                        .map_err(|error| FenceError::Unavailable(Box::new(error)))
                };
                scope(&text("kind")?, &text("subject")?)
                    .ok_or_else(|| FenceError::Unavailable("a stored fence cannot be read".into()))
            })
            .collect()
    }
}

fn scope(kind: &str, subject: &str) -> Option<FenceScope> {
    match kind {
        "EVERYTHING" => Some(FenceScope::Everything),
        "DESTINATION" => LogicalDestinationId::parse(subject)
            .ok()
            .map(FenceScope::Destination),
        "ORDERING_SCOPE" => PartitionKey::from_stored(subject)
            .ok()
            .map(FenceScope::OrderingScope),
        "EVENT" => EventId::parse(subject).ok().map(FenceScope::Event),
        _ => None,
    }
}

impl SqliteControl {
    async fn raise_once(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, Trouble> {
        let mut tx = self.begin().await?;
        let raised = sqlx::query(include_str!("sql/insert_fence.sql"))
            .bind(scope.kind())
            .bind(scope.subject())
            .bind(MAXIMUM)
            .execute(tx.connection())
            .await?;
        if raised.rows_affected() == 0 {
            let stands: bool = sqlx::query_scalar(include_str!("sql/select_fence_stands.sql"))
                .bind(scope.kind())
                .bind(scope.subject())
                .fetch_one(tx.connection())
                .await?;
            tx.rollback().await;
            return Ok(if stands {
                FenceOutcome::Unchanged
            } else {
                FenceOutcome::Full { maximum: MAXIMUM }
            });
        }
        audit(tx.connection(), "FENCE_RAISED", &subject(scope), act, None).await?;
        commit(tx).await?;
        Ok(FenceOutcome::Changed)
    }

    async fn lift_once(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, Trouble> {
        let mut tx = self.begin().await?;
        let lifted = sqlx::query(include_str!("sql/delete_fence.sql"))
            .bind(scope.kind())
            .bind(scope.subject())
            .execute(tx.connection())
            .await?;
        if lifted.rows_affected() == 0 {
            tx.rollback().await;
            return Ok(FenceOutcome::Unchanged);
        }
        audit(tx.connection(), "FENCE_LIFTED", &subject(scope), act, None).await?;
        commit(tx).await?;
        Ok(FenceOutcome::Changed)
    }
}

fn subject(scope: &FenceScope) -> String {
    match scope.subject() {
        "" => scope.kind().to_owned(),
        subject => format!("{} {subject}", scope.kind()),
    }
}
