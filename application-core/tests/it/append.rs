//! Appending: whatever refuses leaves the caller's transaction rollback-only.

use crate::support::{Codec, identities};
use application_core::event::{IntegrationEventDraft, ValidatedIntegrationEvent};
use application_core::ports::{
    AppendError, AppendReceipt, EncodeError, OutboxAppendPort, WriteTransaction,
};
use application_core::usecase::{AppendEventError, IntegrationEventAppender};
use std::sync::Arc;

#[derive(Default)]
struct Transaction {
    rollback_only: bool,
}

impl WriteTransaction for Transaction {
    fn mark_rollback_only(&mut self) {
        self.rollback_only = true;
    }
}

struct NeverAppends;

impl OutboxAppendPort<Transaction> for NeverAppends {
    async fn append<'t>(
        &'t self,
        _: &'t mut Transaction,
        _: &'t ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        panic!("a refused draft never reaches the store")
    }
}

#[tokio::test]
async fn a_swallowed_encoding_error_cannot_commit() {
    let appender = IntegrationEventAppender::new(Arc::new(Codec), Arc::new(NeverAppends));
    let identities = identities();
    let draft = IntegrationEventDraft {
        event_id: identities.event_id,
        aggregate: identities.aggregate,
        order: identities.order,
        occurred_at: identities.occurred_at,
        correlation_id: identities.correlation_id,
        causation_id: None,
        tenant_id: None,
        trace: None,
        payload: Box::new("not a registered type".to_owned()),
    };
    let mut tx = Transaction::default();
    let error = appender.append(&mut tx, &draft).await.expect_err("refused");
    assert!(tx.rollback_only);
    assert!(matches!(
        error,
        AppendEventError::Encode(EncodeError::UnknownPayloadType { .. })
    ));
    assert!(!format!("{draft:?}").contains("not a registered type"));
}
