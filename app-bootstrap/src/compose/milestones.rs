//! What a process has reached on its way up and down.
//!
//! Invariant: a milestone is noted by whoever reached it, after the fact, so their order is the order of
//! what happened (requirement 004 §§17.9–17.10).

use crate::runtime::ProcessClock;
use application_core::ports::MonotonicClockPort as _;
use domain_core::instant::MonotonicInstant;
use std::sync::{Arc, Mutex, PoisonError};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// Settings, cards, catalog, schemas and the producer's configuration were compiled.
    Compiled,
    /// The store's secret was resolved, and stores agree on who they are.
    StoreOpened,
    /// A producer generation was created, its effective settings and topics were attested, and it
    /// admits records.
    ProducerReady,
    /// The broker is away; the producer admits nothing until it is there.
    ProducerNotReady,
    /// Workers may ask for permits.
    RelayStarted,
    /// Readiness says that the process is stopping.
    ReadinessRemoved,
    /// No worker claims any more.
    ClaimingStopped,
    /// Every attempt under way has ended, and its outcome is recorded.
    AttemptsEnded,
    /// Some have not; their claims stand until their leases lapse.
    AttemptsLeft,
    /// The producer was drained and its client closed.
    ProducerClosed,
    /// What came late was journalled, and every loop has ended.
    LoopsEnded,
    /// The store's connections are closed.
    StoreClosed,
}

/// The list, shared.
#[derive(Debug, Clone, Default)]
pub struct Milestones(Arc<Mutex<Vec<(Milestone, MonotonicInstant)>>>);

impl Milestones {
    /// Those that were reached, in order, and when by the process's clock.
    pub fn reached(&self) -> Vec<(Milestone, MonotonicInstant)> {
        self.lock().clone()
    }

    pub(crate) fn reach(&self, milestone: Milestone) {
        tracing::debug!(?milestone, "reached");
        self.lock().push((milestone, ProcessClock.now()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Milestone, MonotonicInstant)>> {
        // Every change is one step, so a panicking holder leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
