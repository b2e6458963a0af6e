//! Appending an event inside the caller's write transaction.
//!
//! Invariant: after an error the caller's transaction cannot commit (requirement 004 §§12.4,
//! 15.1).

use super::WriteTransaction;
use crate::Cause;
use crate::event::ValidatedIntegrationEvent;
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::{EventId, PublicationEpoch, TransactionResourceId};
use std::future::Future;

/// What the store added to the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendReceipt {
    /// The epoch that was active.
    pub epoch: PublicationEpoch,
    /// Who may publish the event.
    pub authority: DispatchAuthority,
    /// The store's own identity, copied in the same transaction.
    pub resource: TransactionResourceId,
}

/// Why an event was not appended. The caller's transaction is rollback-only afterwards.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The event id is already there, with the same or another document.
    #[error("event {event_id} is already in the outbox")]
    DuplicateEvent {
        /// The event.
        event_id: EventId,
    },
    /// Another event has the same place in the aggregate's order.
    #[error("event {event_id} takes a place in its aggregate's order that is already taken")]
    OrderTaken {
        /// The event.
        event_id: EventId,
    },
    /// No publication epoch is active; try again later.
    #[error("no publication epoch is active; the append may be tried again")]
    NoActiveEpoch,
    /// The database aborted the transaction to keep it serializable; try the whole again.
    #[error("the database asked for the transaction to be tried again")]
    TryAgain(#[source] Cause),
    /// The database refused a value.
    #[error("the outbox refused event {event_id}")]
    Refused {
        /// The event.
        event_id: EventId,
        /// The database's reason.
        #[source]
        source: Cause,
    },
    /// The database cannot be reached.
    #[error("the outbox cannot be reached")]
    Unavailable(#[source] Cause),
}

/// Appends to the outbox of the store that `Tx` writes to.
pub trait OutboxAppendPort<Tx: WriteTransaction>: Send + Sync {
    /// Inserts the event and, in a polling epoch, its first delivery.
    ///
    /// # Errors
    /// [`AppendError`]; MUST leave `tx` rollback-only.
    fn append<'t>(
        &'t self,
        tx: &'t mut Tx,
        event: &'t ValidatedIntegrationEvent,
    ) -> impl Future<Output = Result<AppendReceipt, AppendError>> + Send + 't;
}
