//! What a deployment allows of the outbox's size, and what it removes.
//!
//! Invariant: every bound is stated and finite; retention never shortens what replay needs
//! (requirement 004 §§19.6, 19.8).

use super::super::error::ConfigError;
use super::super::profile::{CapacityProfile, RetentionProfile};
use super::super::raw::{RawCapacity, RawRetention};
use super::origin::Origin;
use application_core::ports::ReapRequest;
use domain_core::capacity::BacklogQuota;

pub(super) fn capacity(at: &Origin<'_>, raw: &RawCapacity) -> Result<CapacityProfile, ConfigError> {
    let count = |key: &str, value: i64| {
        u64::try_from(value)
            .ok()
            .filter(|value| *value >= 1)
            .ok_or_else(|| {
                at.refuse(
                    &format!("outbox.capacity.{key}"),
                    format!("is {value}; 1 to {} is allowed", i64::MAX),
                )
            })
    };
    Ok(CapacityProfile {
        quota: BacklogQuota {
            unresolved: count("maximum-unresolved", raw.maximum_unresolved)?,
            oldest_age: at.duration(
                "outbox.capacity.maximum-oldest-age",
                &raw.maximum_oldest_age,
            )?,
            growth_per_second: count("maximum-growth-per-second", raw.maximum_growth_per_second)?,
            store_bytes: count("maximum-store-bytes", raw.maximum_store_bytes)?,
        },
        sample_interval: at.duration("outbox.capacity.sample-interval", &raw.sample_interval)?,
    })
}

pub(super) fn retention(
    at: &Origin<'_>,
    raw: &RawRetention,
) -> Result<RetentionProfile, ConfigError> {
    Ok(RetentionProfile {
        request: ReapRequest {
            audit_retention: at
                .duration("outbox.retention.audit-retention", &raw.audit_retention)?,
            replay_horizon: at.duration("outbox.retention.replay-horizon", &raw.replay_horizon)?,
            limit: at.count("outbox.retention.batch-events", raw.batch_events, 1, 10_000)?,
        },
        interval: at.duration("outbox.retention.interval", &raw.interval)?,
    })
}
