//! One received record: decode, inbox and effect in one transaction.
//!
//! Invariant: the effect commits together with the inbox row or not at all; an equal event id with
//! another document is refused, never treated as a duplicate (requirement 004 §§11.1, 25.2).

use crate::event::EventIdentities;
use crate::ports::{
    DecodeError, EnvelopeCodec, HandlerError, InboxDecision, InboxError, InboxStorePort,
    IntegrationEventHandler, TransactionError, TransactionPort,
};
use domain_core::hashing::envelope_sha256;
use domain_core::identity::{ConsumerId, EventId};
use shared_contract::header;
use std::sync::Arc;

/// What became of the record. In every case the consumer may move on.
#[derive(Debug)]
pub enum ConsumeOutcome {
    /// Inbox row and effect are committed.
    Applied,
    /// The effect was committed before.
    Duplicate,
    /// Not for this consumer.
    NotWanted,
    /// The record must be quarantined.
    Refused(RefusedRecord),
}

/// What a transport says about a record beside its document. A transport without headers says
/// nothing, since there is nothing that could contradict the document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransportHeaders<'h> {
    /// The header `id`.
    pub id: Option<&'h str>,
    /// The header `contract-id`.
    pub contract_id: Option<&'h str>,
    /// The header `payload-version`.
    pub payload_version: Option<&'h str>,
}

impl TransportHeaders<'_> {
    /// The first header that says something else than the document.
    fn contradiction(&self, document: &EventIdentities) -> Option<&'static str> {
        let version = document.payload_version.to_string();
        [
            (header::ID, self.id, document.event_id.as_str()),
            (
                header::CONTRACT_ID,
                self.contract_id,
                document.contract_id.as_str(),
            ),
            (
                header::PAYLOAD_VERSION,
                self.payload_version,
                version.as_str(),
            ),
        ]
        .into_iter()
        .find(|(_, said, document)| said.is_some_and(|said| said != *document))
        .map(|(name, _, _)| name)
    }
}

/// Why a record was refused.
#[derive(Debug, thiserror::Error)]
pub enum RefusedRecord {
    /// Not an acceptable envelope.
    #[error("the record is not an acceptable envelope")]
    Document(#[source] DecodeError),
    /// A header contradicts the document (requirement 004 §14.3).
    #[error("header {header} differs from the document of event {event_id}")]
    HeaderMismatch {
        /// The header.
        header: &'static str,
        /// The document's event.
        event_id: EventId,
    },
    /// The same event id came with another document before.
    #[error("event {event_id} was seen before with another document")]
    Collision {
        /// The event.
        event_id: EventId,
    },
    /// The effect can never be applied.
    #[error("event {event_id} cannot be applied: {reason}")]
    Unacceptable {
        /// The event.
        event_id: EventId,
        /// The handler's reason.
        reason: String,
    },
}

/// Why it is not known or not done yet; the same record is to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The inbox did not answer.
    #[error("the inbox did not answer")]
    Inbox(#[source] InboxError),
    /// The effect failed.
    #[error("the effect failed")]
    Handler(#[source] HandlerError),
    /// The transaction did not end well; after an unknown commit the inbox absorbs the repeat.
    #[error("the transaction of inbox and effect did not end well")]
    Transaction(#[source] crate::Cause),
}

/// Consumes records for one consumer identity.
pub struct ConsumeEvent<T, I, H> {
    transactions: Arc<T>,
    inbox: Arc<I>,
    handler: Arc<H>,
    codec: Arc<dyn EnvelopeCodec>,
    consumer: ConsumerId,
}

impl<T, I, H> ConsumeEvent<T, I, H>
where
    T: TransactionPort,
    T::Tx: 'static,
    I: InboxStorePort<T::Tx> + 'static,
    H: IntegrationEventHandler<T::Tx> + 'static,
{
    /// Joins the parts for one consumer.
    pub fn new(
        transactions: Arc<T>,
        inbox: Arc<I>,
        handler: Arc<H>,
        codec: Arc<dyn EnvelopeCodec>,
        consumer: ConsumerId,
    ) -> Self {
        Self {
            transactions,
            inbox,
            handler,
            codec,
            consumer,
        }
    }

    /// Consumes one document with what its transport says about it.
    ///
    /// # Errors
    /// [`ConsumeError`] when the same document must be tried again.
    pub async fn execute(
        &self,
        envelope: &[u8],
        headers: TransportHeaders<'_>,
    ) -> Result<ConsumeOutcome, ConsumeError> {
        let decoded = match self.codec.decode(envelope) {
            Ok(decoded) => decoded,
            Err(error) => return Ok(ConsumeOutcome::Refused(RefusedRecord::Document(error))),
        };
        if let Some(header) = headers.contradiction(&decoded.identities) {
            return Ok(ConsumeOutcome::Refused(RefusedRecord::HeaderMismatch {
                header,
                event_id: decoded.event_id().clone(),
            }));
        }
        if !self.handler.wants(&decoded.identities) {
            return Ok(ConsumeOutcome::NotWanted);
        }
        let event_id = decoded.event_id().clone();
        let sha256 = envelope_sha256(envelope);
        let (inbox, handler) = (Arc::clone(&self.inbox), Arc::clone(&self.handler));
        let consumer = self.consumer.clone();
        let result = self
            .transactions
            .in_write(move |tx| {
                Box::pin(async move {
                    let decision = inbox
                        .record(tx, &consumer, &decoded.identities, sha256)
                        .await
                        .map_err(ConsumeError::Inbox)?;
                    if decision == InboxDecision::FirstSeen {
                        handler
                            .apply(tx, &decoded)
                            .await
                            .map_err(ConsumeError::Handler)?;
                    }
                    Ok(decision)
                })
            })
            .await;
        match result {
            Ok(InboxDecision::FirstSeen) => Ok(ConsumeOutcome::Applied),
            Ok(InboxDecision::Duplicate) => Ok(ConsumeOutcome::Duplicate),
            Ok(InboxDecision::Collision) => Ok(ConsumeOutcome::Refused(RefusedRecord::Collision {
                event_id,
            })),
            Err(TransactionError::Work(ConsumeError::Handler(HandlerError::Unacceptable(
                reason,
            )))) => Ok(ConsumeOutcome::Refused(RefusedRecord::Unacceptable {
                event_id,
                reason,
            })),
            Err(TransactionError::Work(error)) => Err(error),
            Err(error) => Err(ConsumeError::Transaction(Box::new(error))),
        }
    }
}
