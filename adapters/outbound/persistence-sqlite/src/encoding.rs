//! Values on their way into SQL.
//!
//! Invariant: an instant is a whole number of microseconds, and no duration can overflow the
//! database's arithmetic.

use application_core::ports::KnownRecord;
use domain_core::instant::OccurredAt;
use std::time::Duration;

/// Ten years: longer than any configured duration may be.
const LONGEST: i64 = 3650 * 24 * 60 * 60 * 1_000_000;

/// Microseconds, at most ten years of them.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

/// The instant cut to the millisecond, as microseconds; `None` when no column can hold it.
pub(crate) fn occurred_at(instant: OccurredAt) -> Option<i64> {
    let millis = i64::from(instant.nanos() / 1_000_000);
    instant
        .seconds()
        .checked_mul(1_000_000)?
        .checked_add(millis * 1000)
}

/// The known records as the JSON array that the statements read: one array of contract, version,
/// schema hash, destination and revision each.
pub(crate) fn known(records: &[KnownRecord]) -> String {
    let rows = records
        .iter()
        .map(|record| {
            serde_json::json!([
                record.contract.contract_id.as_str(),
                record.contract.payload_version.value(),
                record.payload_schema.to_hex(),
                record.destination.as_str(),
                record.binding_revision.as_str(),
            ])
        })
        .collect();
    serde_json::Value::Array(rows).to_string()
}
