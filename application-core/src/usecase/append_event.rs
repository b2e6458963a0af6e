//! Encode and append, inside the caller's write transaction.
//!
//! Invariant: if either refuses, the transaction can only roll back, whatever the caller does with
//! the error (requirement 004 §12.4).

use crate::event::IntegrationEventDraft;
use crate::ports::{
    AppendError, AppendReceipt, EncodeError, EnvelopeCodec, OutboxAppendPort, WriteTransaction,
};
use std::sync::Arc;

/// Why no event was appended. The caller's transaction is rollback-only.
#[derive(Debug, thiserror::Error)]
pub enum AppendEventError {
    /// The draft has no acceptable document.
    #[error("the event was not encoded")]
    Encode(#[source] EncodeError),
    /// The store did not take the document.
    #[error("the event was not appended")]
    Append(#[source] AppendError),
}

/// Turns drafts into outbox rows.
pub struct IntegrationEventAppender<P> {
    codec: Arc<dyn EnvelopeCodec>,
    outbox: Arc<P>,
}

impl<P> Clone for IntegrationEventAppender<P> {
    fn clone(&self) -> Self {
        Self {
            codec: Arc::clone(&self.codec),
            outbox: Arc::clone(&self.outbox),
        }
    }
}

impl<P> IntegrationEventAppender<P> {
    /// Joins codec and outbox.
    pub fn new(codec: Arc<dyn EnvelopeCodec>, outbox: Arc<P>) -> Self {
        Self { codec, outbox }
    }

    /// Encodes the draft and inserts event and delivery.
    ///
    /// # Errors
    /// [`AppendEventError`]; the transaction is rollback-only afterwards.
    pub async fn append<Tx>(
        &self,
        tx: &mut Tx,
        draft: &IntegrationEventDraft,
    ) -> Result<AppendReceipt, AppendEventError>
    where
        Tx: WriteTransaction,
        P: OutboxAppendPort<Tx>,
    {
        let event = match self.codec.encode(draft) {
            Ok(event) => event,
            Err(error) => {
                tx.mark_rollback_only();
                return Err(AppendEventError::Encode(error));
            }
        };
        let appended = self.outbox.append(tx, &event).await;
        if appended.is_err() {
            tx.mark_rollback_only();
        }
        appended.map_err(AppendEventError::Append)
    }
}
