//! Draining late acknowledgements until stopped.
//!
//! Invariant: a failed drain goes back to the queue and is tried again after a pause.

use super::{Readiness, ReadinessReason, StopSignal};
use application_core::ports::LatePublicationObservationSource;
use application_core::usecase::{LateDrain, RecordLateObservations};
use std::sync::Arc;
use std::time::Duration;

/// Batches drained after the stop, at most.
const LAST_BATCHES: u32 = 1000;

/// Drains in bounded batches; after the stop, until nothing is left.
pub(crate) async fn drain_late_observations(
    drain: RecordLateObservations,
    source: Arc<dyn LatePublicationObservationSource>,
    readiness: Readiness,
    interval: Duration,
    mut stop: StopSignal,
) {
    loop {
        let stopping = stop.stopped_within(interval).await;
        readiness.set(
            ReadinessReason::LateObservationsDropped,
            source.dropped() > 0,
        );
        drain_once(&drain).await;
        if stopping {
            for _ in 0..LAST_BATCHES {
                if !drain_once(&drain).await {
                    return;
                }
            }
            return;
        }
    }
}

/// Tells whether there may be more.
async fn drain_once(drain: &RecordLateObservations) -> bool {
    match drain.execute().await {
        Ok(LateDrain::Nothing) => false,
        Ok(LateDrain::Persisted(report)) => {
            tracing::info!(
                appended = report.appended,
                duplicates = report.duplicates,
                orphaned = report.orphaned,
                "late acknowledgements journalled"
            );
            true
        }
        Err(error) => {
            tracing::warn!(error = %crate::chain(&error), "late acknowledgements wait");
            false
        }
    }
}
