//! The loops that keep the outbox within its bounds: measuring it and removing what is resolved.
//!
//! Invariant: neither loop changes a delivery's state; a loop that fails says so once a streak and
//! goes on.

use super::{Readiness, ReadinessReason, StopSignal};
use crate::config::{CapacityProfile, RetentionProfile};
use application_core::ports::{OutboxCapacityPort, OutboxRetentionPort};
use domain_core::capacity::{BacklogSample, CapacityBreach, breaches};
use std::sync::Arc;

/// Measures the backlog against its quota, until stopped.
pub(crate) async fn watch_capacity(
    port: Arc<dyn OutboxCapacityPort>,
    profile: CapacityProfile,
    readiness: Readiness,
    mut stop: StopSignal,
) {
    let mut earlier: Option<BacklogSample> = None;
    let mut failing = false;
    loop {
        match port.sample(profile.quota.unresolved).await {
            Ok(now) => {
                failing = false;
                let breached = breaches(&profile.quota, &now, earlier.as_ref());
                for breach in CapacityBreach::ALL {
                    readiness.set(
                        ReadinessReason::OverCapacity(breach),
                        breached.contains(&breach),
                    );
                }
                earlier = Some(now);
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(error = %crate::chain(&error), "the outbox was not measured");
                }
            }
        }
        if stop.stopped_within(profile.sample_interval).await {
            return;
        }
    }
}

/// Removes resolved events batch by batch, until stopped.
pub(crate) async fn apply_retention(
    port: Arc<dyn OutboxRetentionPort>,
    profile: RetentionProfile,
    mut stop: StopSignal,
) {
    let mut failing = false;
    let mut removed = 0;
    loop {
        let finished = match port.reap(&profile.request).await {
            Ok(report) => {
                failing = false;
                removed += report.removed;
                report.finished
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(error = %crate::chain(&error), "retention was not applied");
                }
                true
            }
        };
        if finished && removed > 0 {
            tracing::info!(removed, "resolved events removed after their retention");
            removed = 0;
        }
        let done = if finished {
            stop.stopped_within(profile.interval).await
        } else {
            stop.is_stopped()
        };
        if done {
            return;
        }
    }
}
