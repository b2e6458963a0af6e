//! The inbox, in the transaction of the consumer's effect.
//!
//! Invariant: the row is inserted before anything is known about it, so two transactions that see
//! the same event for the first time meet at the primary key.

use crate::errors::{DatabaseFault, FaultKind};
use crate::transaction::PostgresWriteTransaction;
use application_core::event::EventIdentities;
use application_core::ports::{InboxDecision, InboxError, InboxStorePort, WriteTransaction as _};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::ConsumerId;

/// The inbox of the store that the transaction writes to.
#[derive(Debug, Clone, Copy, Default)]
pub struct PostgresInbox;

impl InboxStorePort<PostgresWriteTransaction> for PostgresInbox {
    async fn record<'t>(
        &'t self,
        tx: &'t mut PostgresWriteTransaction,
        consumer: &'t ConsumerId,
        event: &'t EventIdentities,
        envelope_sha256: Sha256Digest,
    ) -> Result<InboxDecision, InboxError> {
        match insert(tx, consumer, event, envelope_sha256).await {
            Ok(decision) => {
                tx.proven();
                Ok(decision)
            }
            Err(fault) => {
                tx.mark_rollback_only();
                Err(match fault.kind() {
                    FaultKind::Again => InboxError::TryAgain(Box::new(fault)),
                    _ => InboxError::Unavailable(Box::new(fault)),
                })
            }
        }
    }
}

async fn insert(
    tx: &mut PostgresWriteTransaction,
    consumer: &ConsumerId,
    event: &EventIdentities,
    envelope_sha256: Sha256Digest,
) -> Result<InboxDecision, DatabaseFault> {
    let inserted = sqlx::query(include_str!("sql/record_consumption.sql"))
        .bind(consumer.as_str())
        .bind(event.tenant_scope.as_str())
        .bind(event.event_id.as_str())
        .bind(event.contract_id.as_str())
        .bind(i64::from(event.payload_version.value()))
        .bind(&envelope_sha256.as_bytes()[..])
        .fetch_optional(tx.own())
        .await?;
    if inserted.is_some() {
        return Ok(InboxDecision::FirstSeen);
    }
    let stored: Option<Vec<u8>> = sqlx::query_scalar(include_str!("sql/consumed_document.sql"))
        .bind(consumer.as_str())
        .bind(event.tenant_scope.as_str())
        .bind(event.event_id.as_str())
        .fetch_optional(tx.own())
        .await?;
    match stored {
        Some(stored) if stored == envelope_sha256.as_bytes() => Ok(InboxDecision::Duplicate),
        Some(_) => Ok(InboxDecision::Collision),
        // Removed between the two statements.
        None => Err(DatabaseFault::Moved),
    }
}
