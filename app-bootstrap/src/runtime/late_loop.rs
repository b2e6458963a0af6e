//! Draining late acknowledgements until stopped.
//!
//! Invariant: a failed drain goes back to the queue and is tried again after a pause.

use super::{Readiness, ReadinessReason, StopSignal};
use application_core::ports::{LatePublicationObservationSource, OutboxAttemptObservationPort};
use application_core::usecase::{LateDrain, RecordLateObservations};
use std::sync::Arc;
use std::time::Duration;

/// Batches drained after the stop, at most.
const LAST_BATCHES: u32 = 1000;

/// Drains every source in bounded batches; after the stop, until nothing is left.
pub(crate) async fn drain_late_observations(
    journal: Arc<dyn OutboxAttemptObservationPort>,
    sources: Vec<Arc<dyn LatePublicationObservationSource>>,
    batch: usize,
    readiness: Readiness,
    interval: Duration,
    mut stop: StopSignal,
) {
    let drains: Vec<RecordLateObservations> = sources
        .iter()
        .map(|source| RecordLateObservations::new(Arc::clone(source), Arc::clone(&journal), batch))
        .collect();
    loop {
        let stopping = stop.stopped_within(interval).await;
        readiness.set(
            ReadinessReason::LateObservationsDropped,
            sources.iter().any(|source| source.dropped() > 0),
        );
        for drain in &drains {
            let batches = if stopping { LAST_BATCHES } else { 1 };
            for _ in 0..batches {
                if !drain_once(drain).await {
                    break;
                }
            }
        }
        if stopping {
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
