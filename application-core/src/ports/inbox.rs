//! The inbox: one row per consumer, tenant scope and event, in the transaction of the effect.
//!
//! Invariant: the row is inserted before the effect and commits with it; an equal event id with
//! another document is no duplicate but a collision (requirement 004 §§11.1, 25.1–25.2).

use super::WriteTransaction;
use crate::Cause;
use crate::event::EventIdentities;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::ConsumerId;
use std::future::Future;

/// What the inbox said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxDecision {
    /// Never seen: apply the effect in this transaction.
    FirstSeen,
    /// Applied before, with the same document: do nothing.
    Duplicate,
    /// Seen before with another document: refuse and quarantine.
    Collision,
}

/// Why the inbox could not answer. The caller's transaction is rollback-only afterwards.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// Try the whole transaction again.
    #[error("the database asked for the transaction to be tried again")]
    TryAgain(#[source] Cause),
    /// The store cannot be reached.
    #[error("the inbox cannot be reached")]
    Unavailable(#[source] Cause),
}

/// The inbox of the store that `Tx` writes to.
pub trait InboxStorePort<Tx: WriteTransaction>: Send + Sync {
    /// Records that `consumer` saw the event of its tenant scope, unless it did before.
    ///
    /// # Errors
    /// [`InboxError`]; MUST leave `tx` rollback-only.
    fn record<'t>(
        &'t self,
        tx: &'t mut Tx,
        consumer: &'t ConsumerId,
        event: &'t EventIdentities,
        envelope_sha256: Sha256Digest,
    ) -> impl Future<Output = Result<InboxDecision, InboxError>> + Send + 't;
}
