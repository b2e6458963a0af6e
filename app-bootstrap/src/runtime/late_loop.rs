//! Draining late acknowledgements until stopped.
//!
//! Invariant: a failed drain goes back to the queue and is tried again after a pause.

use super::{Readiness, ReadinessReason, StopSignal};
use application_core::ports::LatePublicationObservationSource;
use application_core::usecase::{LateDrain, RecordLateObservations};
use std::sync::Arc;
use std::time::Duration;

/// Drains in bounded batches, and once more after the stop.
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
        match drain.execute().await {
            Ok(LateDrain::Nothing) => {}
            Ok(LateDrain::Persisted(report)) => tracing::info!(
                appended = report.appended,
                duplicates = report.duplicates,
                orphaned = report.orphaned,
                "late acknowledgements journalled"
            ),
            Err(error) => {
                tracing::warn!(error = %crate::chain(&error), "late acknowledgements wait");
            }
        }
        if stopping {
            return;
        }
    }
}
