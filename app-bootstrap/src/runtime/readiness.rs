//! Whether the relay can do its work, and why not.
//!
//! Invariant: a reason stands until what caused it is gone; ready means that there is none.

use super::{ProcessClock, StopSignal};
use application_core::ports::{
    KnownRecord, MonotonicClockPort as _, OutboxDeliveryPort, UnknownReason,
};
use domain_core::capacity::CapacityBreach;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why the relay is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadinessReason {
    /// The producer cannot send.
    ProviderNotReady,
    /// The store does not answer.
    StoreUnavailable,
    /// The process is stopping.
    Stopping,
    /// Unresolved rows that this process cannot send.
    UnknownRecords(UnknownReason),
    /// Late observations were lost.
    LateObservationsDropped,
    /// The outbox is over its deployment's quota: business writes should be held back.
    OverCapacity(CapacityBreach),
}

impl ReadinessReason {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProviderNotReady => "provider-not-ready",
            Self::StoreUnavailable => "store-unavailable",
            Self::Stopping => "stopping",
            Self::UnknownRecords(UnknownReason::ContractVersion) => "unknown-contract-version",
            Self::UnknownRecords(UnknownReason::SchemaHash) => "unknown-schema-hash",
            Self::UnknownRecords(UnknownReason::BindingRevision) => "unknown-binding-revision",
            Self::UnknownRecords(UnknownReason::Unreadable) => "unreadable-records",
            Self::LateObservationsDropped => "late-observations-dropped",
            Self::OverCapacity(CapacityBreach::Unresolved) => "over-capacity-unresolved",
            Self::OverCapacity(CapacityBreach::OldestAge) => "over-capacity-oldest-age",
            Self::OverCapacity(CapacityBreach::Growth) => "over-capacity-growth",
            Self::OverCapacity(CapacityBreach::StoreBytes) => "over-capacity-store-bytes",
        }
    }
}

/// The reasons that stand now.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<ReadinessReason>>>);

impl Readiness {
    /// The reasons; none means ready.
    pub fn reasons(&self) -> BTreeSet<ReadinessReason> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sets or clears one reason, logs the change once, and tells whether it was one.
    pub fn set(&self, reason: ReadinessReason, stands: bool) -> bool {
        let mut reasons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = if stands {
            reasons.insert(reason)
        } else {
            reasons.remove(&reason)
        };
        if changed && stands {
            tracing::warn!(reason = reason.as_str(), "relay readiness degraded");
        } else if changed {
            tracing::info!(reason = reason.as_str(), "relay readiness reason cleared");
        }
        changed
    }
}

/// A count is repeated after so many times its own duration at the earliest: a large backlog is
/// counted less often, so that counting it takes a small part of the store's time.
const RESPITE: u32 = 20;

/// Counts rows that this process cannot send, until stopped.
pub(crate) async fn watch_unknown_backlog(
    deliveries: Arc<dyn OutboxDeliveryPort>,
    known: Arc<[KnownRecord]>,
    readiness: Readiness,
    interval: Duration,
    mut stop: StopSignal,
) {
    loop {
        let began = ProcessClock.now();
        match deliveries.count_unknown(&known).await {
            Ok(backlog) => {
                readiness.set(ReadinessReason::StoreUnavailable, false);
                for reason in UnknownReason::ALL {
                    let count = backlog.by_reason.get(&reason).copied().unwrap_or(0);
                    if readiness.set(ReadinessReason::UnknownRecords(reason), count > 0)
                        && count > 0
                    {
                        tracing::warn!(
                            reason = reason.as_str(),
                            count,
                            "unresolved rows that this process cannot send"
                        );
                    }
                }
            }
            Err(error) => {
                if readiness.set(ReadinessReason::StoreUnavailable, true) {
                    let error = crate::chain(&error);
                    tracing::warn!(error, "the backlog could not be counted");
                }
            }
        }
        let took = began.until(ProcessClock.now());
        let pause = interval.max(took.saturating_mul(RESPITE));
        if stop.stopped_within(pause).await {
            return;
        }
    }
}
