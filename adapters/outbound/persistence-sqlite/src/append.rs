//! Appending an event inside the caller's write transaction.
//!
//! Invariant: event and delivery are inserted together, exactly one row each where one is
//! expected; after any error the transaction is rollback-only.

use crate::encoding::{micros, occurred_at};
use crate::errors::{Failure, classify};
use crate::row;
use crate::writer::{SqliteWriteTransaction, Writer};
use application_core::event::ValidatedIntegrationEvent;
use application_core::ports::{
    AppendError, AppendPolicy, AppendReceipt, OutboxAppendPort, WriteTransaction as _,
};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::PublicationEpoch;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

/// Appends to the outbox of one store.
#[derive(Debug, Clone)]
pub struct SqliteOutbox {
    pub(crate) writer: Writer,
    pub(crate) policy: AppendPolicy,
}

/// The store inserted something else than it was asked to.
#[derive(Debug, thiserror::Error)]
enum Unexpected {
    #[error("the insert returned no readable row")]
    Receipt(#[source] row::CorruptColumn),
    #[error("{0} deliveries were inserted for a polling event")]
    Deliveries(u64),
    #[error("the time of occurrence fits no column")]
    OccurredAt,
}

impl OutboxAppendPort<SqliteWriteTransaction> for SqliteOutbox {
    async fn append<'t>(
        &'t self,
        tx: &'t mut SqliteWriteTransaction,
        event: &'t ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        let appended = self.insert(tx.connection(), event).await;
        if appended.is_err() {
            tx.mark_rollback_only();
        }
        appended
    }
}

impl SqliteOutbox {
    async fn insert(
        &self,
        connection: &mut SqliteConnection,
        event: &ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        let refused = |unexpected: Unexpected| AppendError::Refused {
            event_id: event.identities().event_id.clone(),
            source: Box::new(unexpected),
        };
        let Some(occurred_at) = occurred_at(event.identities().occurred_at) else {
            return Err(refused(Unexpected::OccurredAt));
        };
        let inserted = match insert_event(connection, event, occurred_at).await {
            Ok(inserted) => inserted,
            Err(error) => return Err(explain(connection, event, error).await),
        };
        let Some(inserted) = inserted else {
            return Err(AppendError::NoActiveEpoch);
        };
        let receipt = receipt(&inserted).map_err(|column| refused(Unexpected::Receipt(column)))?;
        let deliveries = sqlx::query(include_str!("sql/insert_first_delivery.sql"))
            .bind(event.identities().event_id.as_str())
            .bind(self.policy.dispatch_profile_id())
            .bind(micros(self.policy.initial_age(event)))
            .execute(&mut *connection)
            .await;
        let deliveries = match deliveries {
            Ok(done) => done.rows_affected(),
            Err(error) => return Err(explain(connection, event, error).await),
        };
        let expected = u64::from(receipt.authority == DispatchAuthority::PollingV2);
        if deliveries == expected {
            Ok(receipt)
        } else {
            Err(refused(Unexpected::Deliveries(deliveries)))
        }
    }
}

async fn insert_event(
    connection: &mut SqliteConnection,
    event: &ValidatedIntegrationEvent,
    occurred_at: i64,
) -> Result<Option<SqliteRow>, sqlx::Error> {
    let identities = event.identities();
    let schemas = event.schemas();
    sqlx::query(include_str!("sql/insert_event.sql"))
        .bind(identities.event_id.as_str())
        .bind(ValidatedIntegrationEvent::ENVELOPE_VERSION)
        .bind(identities.contract_id.as_str())
        .bind(identities.payload_version.value())
        .bind(identities.destination.as_str())
        .bind(event.binding_revision().as_str())
        .bind(identities.aggregate.aggregate_type().as_str())
        .bind(identities.aggregate.id().as_str())
        .bind(identities.order.sequence().value())
        .bind(identities.order.index().value())
        .bind(event.partition_key().as_str())
        .bind(event.ordering_required())
        .bind(occurred_at)
        .bind(identities.tenant_scope.as_str())
        .bind(identities.correlation_id.as_str())
        .bind(identities.causation_id.as_ref().map(AsRef::<str>::as_ref))
        .bind(event.trace().map(|trace| trace.parent()))
        .bind(event.trace().and_then(|trace| trace.state()))
        .bind(ValidatedIntegrationEvent::CONTENT_TYPE)
        .bind(event.envelope_sha256().as_bytes().as_slice())
        .bind(schemas.envelope_schema.as_bytes().as_slice())
        .bind(schemas.payload_schema.as_bytes().as_slice())
        .bind(schemas.schema_set.as_bytes().as_slice())
        .bind(schemas.catalog_revision.as_bytes().as_slice())
        .bind(event.envelope())
        .fetch_optional(connection)
        .await
}

fn receipt(inserted: &SqliteRow) -> Result<AppendReceipt, row::CorruptColumn> {
    Ok(AppendReceipt {
        epoch: row::number(inserted, "publication_epoch", PublicationEpoch::new)?,
        authority: row::name(inserted, "dispatch_authority", DispatchAuthority::from_name)?,
        resource: row::parsed(inserted, "transaction_resource_id")?,
    })
}

/// Says why an insert was refused. The statement failed alone, so the transaction still answers
/// which identity is taken.
async fn explain(
    connection: &mut SqliteConnection,
    event: &ValidatedIntegrationEvent,
    error: sqlx::Error,
) -> AppendError {
    let event_id = event.identities().event_id.clone();
    match classify(&error) {
        Failure::Busy => AppendError::TryAgain(Box::new(error)),
        Failure::Constraint => match taken_identity(connection, event).await {
            Ok((true, _)) => AppendError::DuplicateEvent { event_id },
            Ok((false, true)) => AppendError::OrderTaken { event_id },
            Ok((false, false)) | Err(_) => AppendError::Refused {
                event_id,
                source: Box::new(error),
            },
        },
        Failure::Value => AppendError::Refused {
            event_id,
            source: Box::new(error),
        },
        Failure::Io | Failure::Other => AppendError::Unavailable(Box::new(error)),
    }
}

async fn taken_identity(
    connection: &mut SqliteConnection,
    event: &ValidatedIntegrationEvent,
) -> Result<(bool, bool), sqlx::Error> {
    let identities = event.identities();
    let taken = sqlx::query(include_str!("sql/select_taken_identity.sql"))
        .bind(identities.event_id.as_str())
        .bind(identities.tenant_scope.as_str())
        .bind(identities.destination.as_str())
        .bind(identities.aggregate.aggregate_type().as_str())
        .bind(identities.aggregate.id().as_str())
        .bind(identities.order.sequence().value())
        .bind(identities.order.index().value())
        .fetch_one(connection)
        .await?;
    Ok((taken.try_get("id_taken")?, taken.try_get("order_taken")?))
}
