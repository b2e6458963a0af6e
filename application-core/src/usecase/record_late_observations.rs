//! Drains late acknowledgements into the attempt journal.
//!
//! Invariant: the source is told only after the transaction committed; a crash in between repeats
//! the write, which the journal absorbs (requirement 004 §15.2).

use crate::ports::{
    LatePublicationObservationSource, LateWriteError, LateWriteReport, OutboxAttemptObservationPort,
};
use std::sync::Arc;

/// One drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateDrain {
    /// Nothing was waiting.
    Nothing,
    /// A batch is durable and forgotten by the source.
    Persisted(LateWriteReport),
}

/// The batch went back to the source; no delivery changed.
#[derive(Debug, thiserror::Error)]
#[error("{released} late observations went back to their queue")]
pub struct LateDrainError {
    /// How many.
    pub released: usize,
    /// Why.
    #[source]
    pub source: LateWriteError,
}

/// Moves one bounded batch.
pub struct RecordLateObservations {
    source: Arc<dyn LatePublicationObservationSource>,
    journal: Arc<dyn OutboxAttemptObservationPort>,
    batch: usize,
}

impl RecordLateObservations {
    /// `batch` is the most observations that one transaction writes.
    pub fn new(
        source: Arc<dyn LatePublicationObservationSource>,
        journal: Arc<dyn OutboxAttemptObservationPort>,
        batch: usize,
    ) -> Self {
        Self {
            source,
            journal,
            batch,
        }
    }

    /// Drains once.
    ///
    /// # Errors
    /// [`LateDrainError`] when the batch could not be made durable.
    pub async fn execute(&self) -> Result<LateDrain, LateDrainError> {
        let observations = self.source.poll_bounded(self.batch);
        if observations.is_empty() {
            return Ok(LateDrain::Nothing);
        }
        match self.journal.append_late_observations(&observations).await {
            Ok(report) => {
                for observation in &observations {
                    self.source.acknowledge_persisted(observation.id);
                }
                Ok(LateDrain::Persisted(report))
            }
            Err(source) => {
                for observation in &observations {
                    self.source.release_for_retry(observation.id);
                }
                Err(LateDrainError {
                    released: observations.len(),
                    source,
                })
            }
        }
    }
}
