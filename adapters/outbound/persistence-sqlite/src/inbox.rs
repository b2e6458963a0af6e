//! The inbox: one row per consumer, tenant scope and event, in the transaction of the effect.
//!
//! Invariant: the row goes in before the effect and commits with it; after an error the
//! transaction is rollback-only.

use crate::errors::{Failure, classify};
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::event::EventIdentities;
use application_core::ports::{InboxDecision, InboxError, InboxStorePort, WriteTransaction as _};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::ConsumerId;
use sqlx::SqliteConnection;

/// The inbox of one store.
#[derive(Debug, Clone)]
pub struct SqliteInbox {
    pub(crate) writer: Writer,
}

impl InboxStorePort<SqliteWriteTransaction> for SqliteInbox {
    async fn record<'t>(
        &'t self,
        tx: &'t mut SqliteWriteTransaction,
        consumer: &'t ConsumerId,
        event: &'t EventIdentities,
        envelope_sha256: Sha256Digest,
    ) -> Result<InboxDecision, InboxError> {
        let decision = record(tx.connection(), consumer, event, envelope_sha256).await;
        decision.map_err(|error| {
            tx.mark_rollback_only();
            match classify(&error) {
                Failure::Busy => InboxError::TryAgain(Box::new(error)),
                _ => InboxError::Unavailable(Box::new(error)),
            }
        })
    }
}

async fn record(
    connection: &mut SqliteConnection,
    consumer: &ConsumerId,
    event: &EventIdentities,
    envelope_sha256: Sha256Digest,
) -> Result<InboxDecision, sqlx::Error> {
    let inserted = sqlx::query(include_str!("sql/insert_inbox.sql"))
        .bind(consumer.as_str())
        .bind(event.tenant_scope.as_str())
        .bind(event.event_id.as_str())
        .bind(event.contract_id.as_str())
        .bind(event.payload_version.value())
        .bind(envelope_sha256.as_bytes().as_slice())
        .execute(&mut *connection)
        .await?;
    if inserted.rows_affected() == 1 {
        return Ok(InboxDecision::FirstSeen);
    }
    let seen: Vec<u8> = sqlx::query_scalar(include_str!("sql/select_inbox.sql"))
        .bind(consumer.as_str())
        .bind(event.tenant_scope.as_str())
        .bind(event.event_id.as_str())
        .fetch_one(connection)
        .await?;
    Ok(if seen == envelope_sha256.as_bytes() {
        InboxDecision::Duplicate
    } else {
        InboxDecision::Collision
    })
}
