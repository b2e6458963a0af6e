//! Reading stored rows back into the core's types.
//!
//! Invariant: a value that breaks its rule is reported by column and event id and never shown.

use crate::errors::DatabaseFault;
use application_core::event::{EventIdentities, SchemaIdentity, StoredOutboxEvent, TraceContext};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest};
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, CausationId,
    ContractId, CorrelationId, DestinationBindingRevision, EventId, EventIndex,
    LogicalDestinationId, PayloadVersion, PublicationEpoch, TenantScope, TransactionResourceId,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

/// Why a row has no value in the core's types.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The row could not be read at all.
    Database(DatabaseFault),
    /// It breaks a rule: which one, without its content.
    Corrupt(String),
}

impl ReadError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt(what.into())
    }
}

impl From<sqlx::Error> for ReadError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}

/// A row that names its event in `event_id`.
pub(crate) struct StoredRow<'r> {
    row: &'r PgRow,
    event_id: EventId,
}

impl<'r> StoredRow<'r> {
    pub(crate) fn new(row: &'r PgRow) -> Result<Self, ReadError> {
        let text: String = row.try_get("event_id")?;
        let event_id = EventId::parse(text)
            .map_err(|error| ReadError::Corrupt(format!("column event_id: {error}")))?;
        Ok(Self { row, event_id })
    }

    pub(crate) fn event_id(&self) -> EventId {
        self.event_id.clone()
    }

    fn broken(&self, column: &str) -> ReadError {
        ReadError::Corrupt(format!("column {column} of event {}", self.event_id))
    }

    pub(crate) fn get<T>(&self, column: &str) -> Result<T, ReadError>
    where
        T: sqlx::Type<sqlx::Postgres> + sqlx::Decode<'r, sqlx::Postgres>,
    {
        Ok(self.row.try_get(column)?)
    }

    pub(crate) fn text<T, E>(
        &self,
        column: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Result<T, ReadError> {
        parse(self.get(column)?).map_err(|_| self.broken(column))
    }

    pub(crate) fn optional_text<T, E>(
        &self,
        column: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Result<Option<T>, ReadError> {
        let text: Option<String> = self.get(column)?;
        text.map(parse).transpose().map_err(|_| self.broken(column))
    }

    pub(crate) fn number<T, E>(
        &self,
        column: &str,
        parse: impl FnOnce(i64) -> Result<T, E>,
    ) -> Result<T, ReadError> {
        parse(self.get(column)?).map_err(|_| self.broken(column))
    }

    fn small_number<T, E>(
        &self,
        column: &str,
        parse: impl FnOnce(i64) -> Result<T, E>,
    ) -> Result<T, ReadError> {
        let number: i32 = self.get(column)?;
        parse(number.into()).map_err(|_| self.broken(column))
    }

    pub(crate) fn count(&self, column: &str) -> Result<u32, ReadError> {
        self.small_number(column, u32::try_from)
    }

    pub(crate) fn name<T>(
        &self,
        column: &str,
        from_name: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        from_name(self.get(column)?).ok_or_else(|| self.broken(column))
    }

    pub(crate) fn optional_name<T>(
        &self,
        column: &str,
        from_name: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let name: Option<&str> = self.get(column)?;
        name.map(|name| from_name(name).ok_or_else(|| self.broken(column)))
            .transpose()
    }

    pub(crate) fn instant(&self, column: &str) -> Result<DatabaseInstant, ReadError> {
        Ok(DatabaseInstant::from_epoch_micros(self.get(column)?))
    }

    pub(crate) fn digest(&self, column: &str) -> Result<Sha256Digest, ReadError> {
        Sha256Digest::from_slice(self.get(column)?).map_err(|_| self.broken(column))
    }

    /// The columns of `read_event.sql`.
    pub(crate) fn event(&self) -> Result<StoredOutboxEvent, ReadError> {
        let state: Option<String> = self.get("tracestate")?;
        Ok(StoredOutboxEvent {
            identities: self.identities()?,
            schemas: SchemaIdentity {
                envelope_schema: self.digest("envelope_schema_hash")?,
                payload_schema: self.digest("payload_schema_hash")?,
                schema_set: self.digest("schema_set_hash")?,
                catalog_revision: self.digest("contract_catalog_revision")?,
            },
            binding_revision: self.text(
                "destination_binding_revision",
                DestinationBindingRevision::parse,
            )?,
            partition_key: self.text("partition_key_text", |text| {
                PartitionKey::from_stored(&text)
            })?,
            ordering_required: self.get("ordering_required")?,
            trace: self.optional_text("traceparent", |parent| {
                TraceContext::parse(&parent, state.as_deref())
            })?,
            envelope: self.get("envelope_bytes")?,
            envelope_sha256: self.digest("envelope_sha256")?,
            publication_epoch: self.number("publication_epoch", PublicationEpoch::new)?,
            dispatch_authority: self.name("dispatch_authority", DispatchAuthority::from_name)?,
            transaction_resource: self
                .text("transaction_resource_id", TransactionResourceId::parse)?,
            created_at: self.instant("created_at")?,
        })
    }

    fn identities(&self) -> Result<EventIdentities, ReadError> {
        Ok(EventIdentities {
            event_id: self.event_id(),
            contract_id: self.text("contract_id", ContractId::parse)?,
            payload_version: self.small_number("payload_version", PayloadVersion::new)?,
            destination: self.text("logical_destination_id", LogicalDestinationId::parse)?,
            tenant_scope: self.text("tenant_scope", |text| TenantScope::from_stored(&text))?,
            aggregate: AggregateIdentity::new(
                self.text("aggregate_type", AggregateType::parse)?,
                self.text("aggregate_id", AggregateId::parse)?,
            ),
            order: AggregateOrder::new(
                self.number("aggregate_sequence", AggregateSequence::new)?,
                self.small_number("aggregate_event_index", EventIndex::new)?,
            ),
            occurred_at: self.number("occurred_at", OccurredAt::from_epoch_millis)?,
            correlation_id: self.text("correlation_id", CorrelationId::parse)?,
            causation_id: self.optional_text("causation_id", CausationId::parse)?,
        })
    }
}
