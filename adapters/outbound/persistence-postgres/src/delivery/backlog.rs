//! Unresolved deliveries that this process cannot send, by reason.
//!
//! Invariant: a row counts once, under the first reason that applies, and what is known must be
//! known together: one record's contract never excuses another's binding.

use super::PostgresDeliveries;
use crate::errors::DatabaseFault;
use crate::session::Access;
use application_core::ports::{KnownRecord, UnknownBacklog, UnknownReason};
use sqlx::Row as _;

/// What open deliveries need, as stored.
struct Needed {
    contract: String,
    version: i32,
    schema: Vec<u8>,
    destination: String,
    binding: String,
}

impl Needed {
    fn reason(&self, known: &[KnownRecord]) -> Option<UnknownReason> {
        let version: Vec<_> = known
            .iter()
            .filter(|record| {
                record.contract.contract_id.as_str() == self.contract
                    && i64::from(record.contract.payload_version.value()) == i64::from(self.version)
            })
            .collect();
        if version.is_empty() {
            return Some(UnknownReason::ContractVersion);
        }
        let schema: Vec<_> = version
            .into_iter()
            .filter(|record| record.payload_schema.as_bytes()[..] == self.schema)
            .collect();
        if schema.is_empty() {
            return Some(UnknownReason::SchemaHash);
        }
        let bound = schema.iter().any(|record| {
            record.destination.as_str() == self.destination
                && record.binding_revision.as_str() == self.binding
        });
        (!bound).then_some(UnknownReason::BindingRevision)
    }
}

impl PostgresDeliveries {
    pub(super) async fn backlog(
        &self,
        known: &[KnownRecord],
    ) -> Result<UnknownBacklog, DatabaseFault> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        let rows = sqlx::query(include_str!("../sql/open_backlog.sql"))
            .fetch_all(&mut *tx)
            .await?;
        let mut backlog = UnknownBacklog::default();
        for row in &rows {
            let needed = Needed {
                contract: row.try_get("contract_id")?,
                version: row.try_get("payload_version")?,
                schema: row.try_get("payload_schema_hash")?,
                destination: row.try_get("logical_destination_id")?,
                binding: row.try_get("destination_binding_revision")?,
            };
            let deliveries: i64 = row.try_get("deliveries")?;
            if let Some(reason) = needed.reason(known) {
                let deliveries = u64::try_from(deliveries).map_err(|_| DatabaseFault::RowCount)?;
                *backlog.by_reason.entry(reason).or_default() += deliveries;
            }
        }
        Ok(backlog)
    }
}
