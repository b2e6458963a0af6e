//! The effect that a consumer has on its own store.
//!
//! Invariant: the effect writes only through the given transaction; effects outside the store go
//! through the outbox (requirement 004 §24.9).

use super::WriteTransaction;
use crate::Cause;
use crate::event::EventIdentities;
use crate::ports::DecodedEnvelope;
use std::future::Future;

/// Why an effect was not applied. Its transaction is rolled back.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// The event will never apply.
    #[error("the event cannot be applied: {0}")]
    Unacceptable(String),
    /// Try again later.
    #[error("the effect failed")]
    Failed(#[source] Cause),
}

/// Applies one event's effect.
pub trait IntegrationEventHandler<Tx: WriteTransaction>: Send + Sync {
    /// Whether this consumer wants the event.
    fn wants(&self, identities: &EventIdentities) -> bool;

    /// Applies the effect in the inbox's transaction.
    ///
    /// # Errors
    /// [`HandlerError`].
    fn apply<'t>(
        &'t self,
        tx: &'t mut Tx,
        event: &'t DecodedEnvelope,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send + 't;
}
