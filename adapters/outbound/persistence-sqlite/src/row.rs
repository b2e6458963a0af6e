//! Stored rows on their way out of SQL.
//!
//! Invariant: every text passes its type's grammar again; an error names column and rule, never
//! the value.

use application_core::contract::ContractKey;
use application_core::event::{EventIdentities, SchemaIdentity, StoredOutboxEvent, TraceContext};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::{PartitionKey, Sha256Digest};
use domain_core::identity::{
    AggregateIdentity, AggregateOrder, AggregateSequence, EventIndex, PayloadVersion,
    PublicationEpoch, TenantScope,
};
use domain_core::instant::{DatabaseInstant, OccurredAt};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use std::str::FromStr;

/// A column breaks its rule.
#[derive(Debug, thiserror::Error)]
#[error("{column}: {rule}")]
pub(crate) struct CorruptColumn {
    column: &'static str,
    rule: String,
}

impl CorruptColumn {
    pub(crate) fn new(column: &'static str, rule: impl std::fmt::Display) -> Self {
        Self {
            column,
            rule: rule.to_string(),
        }
    }
}

/// One column, in the type that SQLite has for it.
pub(crate) fn value<'r, T>(row: &'r SqliteRow, column: &'static str) -> Result<T, CorruptColumn>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column)
        .map_err(|_| CorruptColumn::new(column, "the value has another type"))
}

/// One text column, parsed.
pub(crate) fn text<T, E: std::fmt::Display>(
    row: &SqliteRow,
    column: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, CorruptColumn> {
    let stored: &str = value(row, column)?;
    parse(stored).map_err(|rule| CorruptColumn::new(column, rule))
}

/// One text column, parsed as the type that is asked for.
pub(crate) fn parsed<T>(row: &SqliteRow, column: &'static str) -> Result<T, CorruptColumn>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text(row, column, |stored| stored.parse())
}

/// One text column that may be NULL, parsed as the type that is asked for.
fn optional_parsed<T>(row: &SqliteRow, column: &'static str) -> Result<Option<T>, CorruptColumn>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    optional_text(row, column, |stored| stored.parse())
}

/// One text column that may be NULL, parsed.
pub(crate) fn optional_text<T, E: std::fmt::Display>(
    row: &SqliteRow,
    column: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, CorruptColumn> {
    let stored: Option<&str> = value(row, column)?;
    stored
        .map(parse)
        .transpose()
        .map_err(|rule| CorruptColumn::new(column, rule))
}

/// One text column that holds a stable name.
pub(crate) fn name<T>(
    row: &SqliteRow,
    column: &'static str,
    from_name: impl FnOnce(&str) -> Option<T>,
) -> Result<T, CorruptColumn> {
    text(row, column, |stored| {
        from_name(stored).ok_or("an unknown name")
    })
}

/// One integer column, converted.
pub(crate) fn number<T, E: std::fmt::Display>(
    row: &SqliteRow,
    column: &'static str,
    convert: impl FnOnce(i64) -> Result<T, E>,
) -> Result<T, CorruptColumn> {
    convert(value(row, column)?).map_err(|rule| CorruptColumn::new(column, rule))
}

/// One hash column.
pub(crate) fn digest(row: &SqliteRow, column: &'static str) -> Result<Sha256Digest, CorruptColumn> {
    let stored: &[u8] = value(row, column)?;
    Sha256Digest::from_slice(stored).map_err(|rule| CorruptColumn::new(column, rule))
}

/// A row of `select_event.sql`.
pub(crate) fn event(row: &SqliteRow) -> Result<StoredOutboxEvent, CorruptColumn> {
    let contract = ContractKey {
        contract_id: parsed(row, "contract_id")?,
        payload_version: number(row, "payload_version", PayloadVersion::new)?,
    };
    let parent: Option<&str> = value(row, "traceparent")?;
    let state: Option<&str> = value(row, "tracestate")?;
    Ok(StoredOutboxEvent {
        identities: EventIdentities {
            event_id: parsed(row, "event_id")?,
            contract_id: contract.contract_id,
            payload_version: contract.payload_version,
            destination: parsed(row, "logical_destination_id")?,
            tenant_scope: text(row, "tenant_scope", TenantScope::from_stored)?,
            aggregate: AggregateIdentity::new(
                parsed(row, "aggregate_type")?,
                parsed(row, "aggregate_id")?,
            ),
            order: AggregateOrder::new(
                number(row, "aggregate_sequence", AggregateSequence::new)?,
                number(row, "aggregate_event_index", EventIndex::new)?,
            ),
            occurred_at: number(row, "occurred_at", |micros| {
                OccurredAt::from_epoch_millis(micros.div_euclid(1000))
            })?,
            correlation_id: parsed(row, "correlation_id")?,
            causation_id: optional_parsed(row, "causation_id")?,
        },
        schemas: SchemaIdentity {
            envelope_schema: digest(row, "envelope_schema_hash")?,
            payload_schema: digest(row, "payload_schema_hash")?,
            schema_set: digest(row, "schema_set_hash")?,
            catalog_revision: digest(row, "contract_catalog_revision")?,
        },
        binding_revision: parsed(row, "destination_binding_revision")?,
        partition_key: text(row, "partition_key_text", PartitionKey::from_stored)?,
        ordering_required: value(row, "ordering_required")?,
        trace: parent
            .map(|parent| TraceContext::parse(parent, state))
            .transpose()
            .map_err(|rule| CorruptColumn::new("traceparent", rule))?,
        envelope: value(row, "envelope_bytes")?,
        envelope_sha256: digest(row, "envelope_sha256")?,
        publication_epoch: number(row, "publication_epoch", PublicationEpoch::new)?,
        dispatch_authority: name(row, "dispatch_authority", DispatchAuthority::from_name)?,
        transaction_resource: parsed(row, "transaction_resource_id")?,
        created_at: DatabaseInstant::from_epoch_micros(value(row, "created_at")?),
    })
}
