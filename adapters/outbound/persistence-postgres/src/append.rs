//! Appending an event inside the caller's write transaction.
//!
//! Invariant: one statement locks the ACTIVE epoch, consumes it, and inserts the event together
//! with the delivery its authority asks for; anything else marks the transaction rollback-only.

use crate::errors::{DatabaseFault, FaultKind};
use crate::session::Sessions;
use crate::settings::micros;
use crate::transaction::PostgresWriteTransaction;
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    AppendError, AppendPolicy, AppendReceipt, OutboxAppendPort, WriteTransaction as _,
};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::{EventId, PublicationEpoch, TransactionResourceId};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use std::sync::Arc;

/// Appends to the outbox of the store that the transaction writes to.
#[derive(Clone)]
pub struct PostgresOutbox {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) policy: AppendPolicy,
}

impl OutboxAppendPort<PostgresWriteTransaction> for PostgresOutbox {
    async fn append<'t>(
        &'t self,
        tx: &'t mut PostgresWriteTransaction,
        event: &'t ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        let appended = self.insert(tx, event).await;
        match &appended {
            Ok(_) => tx.proven(),
            Err(_) => tx.mark_rollback_only(),
        }
        appended
    }
}

impl PostgresOutbox {
    async fn insert(
        &self,
        tx: &mut PostgresWriteTransaction,
        event: &ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        let identities = event.identities();
        let schemas = event.schemas();
        let row = sqlx::query(include_str!("sql/append_event.sql"))
            .bind(identities.event_id.as_str())
            .bind(i64::from(ValidatedIntegrationEvent::ENVELOPE_VERSION))
            .bind(identities.contract_id.as_str())
            .bind(i64::from(identities.payload_version.value()))
            .bind(identities.destination.as_str())
            .bind(event.binding_revision().as_str())
            .bind(identities.aggregate.aggregate_type().as_str())
            .bind(identities.aggregate.id().as_str())
            .bind(identities.order.sequence().value())
            .bind(identities.order.index().value())
            .bind(event.partition_key().as_str())
            .bind(identities.occurred_at.seconds())
            .bind(identities.tenant_scope.as_str())
            .bind(identities.correlation_id.as_str())
            .bind(identities.causation_id.as_ref().map(|id| id.as_str()))
            .bind(event.trace().map(|trace| trace.parent()))
            .bind(event.trace().and_then(|trace| trace.state()))
            .bind(ValidatedIntegrationEvent::CONTENT_TYPE)
            .bind(event.envelope())
            .bind(&event.envelope_sha256().as_bytes()[..])
            .bind(&schemas.envelope_schema.as_bytes()[..])
            .bind(&schemas.payload_schema.as_bytes()[..])
            .bind(&schemas.schema_set.as_bytes()[..])
            .bind(&schemas.catalog_revision.as_bytes()[..])
            .bind(event.ordering_required())
            .bind(self.policy.dispatch_profile_id())
            .bind(micros(self.policy.initial_age(event)))
            // Finer parts are cut here; the column would round them.
            .bind(i64::from(identities.occurred_at.nanos() / 1_000_000))
            .fetch_optional(tx.own())
            .await
            .map_err(|error| refusal(&identities.event_id, error.into()))?
            .ok_or(AppendError::NoActiveEpoch)?;
        receipt(&row).map_err(|fault| AppendError::Unavailable(Box::new(fault)))
    }
}

fn receipt(row: &PgRow) -> Result<AppendReceipt, DatabaseFault> {
    let column = |name: &str| DatabaseFault::Column(name.to_owned());
    let epoch = PublicationEpoch::new(row.try_get("publication_epoch")?)
        .map_err(|_| column("publication_epoch"))?;
    let authority = DispatchAuthority::from_name(row.try_get("dispatch_authority")?)
        .ok_or_else(|| column("dispatch_authority"))?;
    let resource: String = row.try_get("transaction_resource_id")?;
    let resource =
        TransactionResourceId::parse(resource).map_err(|_| column("transaction_resource_id"))?;
    // What must be inserted is counted.
    let deliveries: i64 = row.try_get("deliveries")?;
    if deliveries != i64::from(authority == DispatchAuthority::PollingV2) {
        return Err(DatabaseFault::RowCount);
    }
    Ok(AppendReceipt {
        epoch,
        authority,
        resource,
    })
}

fn refusal(event_id: &EventId, fault: DatabaseFault) -> AppendError {
    let event_id = event_id.clone();
    match fault.unique_violation() {
        Some("outbox_event_pkey") => return AppendError::DuplicateEvent { event_id },
        Some("outbox_event_order_key") => return AppendError::OrderTaken { event_id },
        _ => {}
    }
    match fault.kind() {
        FaultKind::Again => AppendError::TryAgain(Box::new(fault)),
        FaultKind::Refused => AppendError::Refused {
            event_id,
            source: Box::new(fault),
        },
        FaultKind::NotMigrated | FaultKind::Unavailable => {
            AppendError::Unavailable(Box::new(fault))
        }
    }
}
