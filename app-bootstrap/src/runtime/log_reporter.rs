//! Persisted transitions and best-effort outcomes in the log.
//!
//! Invariant: ids and stable names only; no payload, key, header or token.

use application_core::ports::{
    BestEffortObserver, BestEffortReport, RelayReport, RelayReporter, ReportError,
};

/// Writes each report as one structured line.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogReporter;

impl RelayReporter for LogReporter {
    fn report(&self, report: &RelayReport) -> Result<(), ReportError> {
        let failure = report.failure;
        tracing::info!(
            event_id = %report.event_id,
            generation = report.generation.value(),
            contract_id = %report.contract_id,
            destination = %report.destination,
            attempt_id = %report.attempt_id,
            attempt_count = report.attempt_count,
            state = report.state.as_str(),
            certainty = %report.certainty,
            failure_class = failure.map(|failure| failure.class.as_str()),
            mismatch = report.mismatch,
            failure_stage = failure.map(|failure| failure.stage.as_str()),
            "delivery transition persisted"
        );
        Ok(())
    }
}

impl BestEffortObserver for LogReporter {
    fn observe(&self, report: &BestEffortReport) {
        let failure = report.failure;
        tracing::info!(
            event_id = %report.event_id,
            contract_id = %report.contract_id,
            destination = %report.destination,
            certainty = %report.certainty,
            failure_class = failure.map(|failure| failure.class.as_str()),
            failure_stage = failure.map(|failure| failure.stage.as_str()),
            "best-effort message sent once"
        );
    }
}
