//! Relay workers: turn after turn until stopped.
//!
//! Invariant: a worker finishes the turn it is in before it stops, so no attempt is abandoned by
//! an orderly shutdown.

use super::scout::{Rest, Scouts};
use super::{Alarm, Readiness, ReadinessReason, StopSignal, window_loop};
use application_core::ports::{AdmissionRefusal, PartitionShare};
use application_core::usecase::{
    RelayError, RelayOneRecord, RelayTurn, WindowPorts, WindowSettings,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// The longest pause of a failing worker.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the workers did, for the last line of the log.
#[derive(Debug, Default)]
pub struct RelayCounters {
    /// Attempts whose outcome was persisted.
    pub persisted: AtomicU64,
    /// Claims that lapsed before their outcome was persisted.
    pub stale: AtomicU64,
    /// Turns that failed.
    pub failed: AtomicU64,
}

/// Running relay workers.
#[derive(Debug)]
pub struct RelayWorkers {
    tasks: JoinSet<()>,
    counters: Arc<RelayCounters>,
}

/// Which claim card the workers run.
pub enum RelayCard {
    /// One record a claim; so many workers.
    PerRecord {
        /// The relay that all workers share.
        relay: Box<RelayOneRecord>,
        /// How many.
        workers: u32,
        /// The pause of whoever is on watch.
        poll_interval: Duration,
    },
    /// Many scopes a claim; so many workers, each with its share of the scopes.
    Window {
        /// The ports that all workers share.
        ports: Box<WindowPorts>,
        /// The bounds of each.
        settings: Box<WindowSettings>,
        /// How many.
        workers: u32,
    },
}

impl RelayWorkers {
    /// Starts the workers of one card; one that dies raises the alarm.
    pub fn start(
        card: RelayCard,
        scouts: &Scouts,
        readiness: &Readiness,
        stop: &StopSignal,
        alarm: &Alarm,
    ) -> Self {
        let counters = Arc::new(RelayCounters::default());
        let mut tasks = JoinSet::new();
        let surroundings = Surroundings {
            counters: Arc::clone(&counters),
            scouts: scouts.clone(),
            readiness: readiness.clone(),
            stop: stop.clone(),
        };
        match card {
            RelayCard::PerRecord {
                relay,
                workers,
                poll_interval,
            } => {
                for _ in 0..workers {
                    let loop_ = work((*relay).clone(), poll_interval, surroundings.clone());
                    tasks.spawn(alarm.clone().guard(loop_));
                }
            }
            RelayCard::Window {
                ports,
                settings,
                workers,
            } => {
                for index in 0..workers {
                    let loop_ = window_loop::work(
                        &ports,
                        &settings,
                        PartitionShare::of(index, workers).unwrap_or(PartitionShare::WHOLE),
                        surroundings.clone(),
                    );
                    tasks.spawn(alarm.clone().guard(loop_));
                }
            }
        }
        Self { tasks, counters }
    }

    /// What they did so far.
    pub fn counters(&self) -> Arc<RelayCounters> {
        Arc::clone(&self.counters)
    }

    /// Waits until every worker finished its turn, at most this long; tells whether all did. A
    /// worker that did not leaves its row claimed until the lease lapses.
    pub async fn drained_within(mut self, limit: Duration) -> bool {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(limit, all).await.is_ok()
    }
}

/// What every worker of a process is given.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) counters: Arc<RelayCounters>,
    pub(super) scouts: Scouts,
    pub(super) readiness: Readiness,
    pub(super) stop: StopSignal,
}

async fn work(relay: RelayOneRecord, poll_interval: Duration, surroundings: Surroundings) {
    let Surroundings {
        counters,
        scouts,
        readiness,
        mut stop,
    } = surroundings;
    let mut rest = Rest::new(&scouts);
    let mut failures = 0_u32;
    while !stop.is_stopped() {
        let turn = relay.execute().await;
        failures = if turn.is_err() { failures + 1 } else { 0 };
        let next = match &turn {
            Ok(RelayTurn::Refused(AdmissionRefusal::Closing)) => Next::Leave,
            Ok(RelayTurn::Refused(refusal)) => {
                readiness.set(
                    ReadinessReason::ProviderNotReady,
                    *refusal == AdmissionRefusal::ProviderNotReady,
                );
                Next::Rest
            }
            Ok(RelayTurn::Idle) => {
                readiness.set(ReadinessReason::ProviderNotReady, false);
                readiness.set(ReadinessReason::StoreUnavailable, false);
                Next::Rest
            }
            Ok(RelayTurn::Searching) => {
                readiness.set(ReadinessReason::ProviderNotReady, false);
                readiness.set(ReadinessReason::StoreUnavailable, false);
                Next::Search
            }
            Ok(RelayTurn::Persisted { .. }) => {
                counters.persisted.fetch_add(1, Ordering::Relaxed);
                readiness.set(ReadinessReason::ProviderNotReady, false);
                readiness.set(ReadinessReason::StoreUnavailable, false);
                Next::Turn
            }
            Ok(RelayTurn::BudgetSpent {
                event_id,
                generation,
                reason,
            }) => {
                tracing::warn!(
                    event_id = %event_id,
                    generation = generation.value(),
                    reason = reason.as_str(),
                    "delivery exhausted without a further send"
                );
                Next::Turn
            }
            Ok(RelayTurn::Stale {
                event_id,
                attempt_id,
            }) => {
                counters.stale.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    event_id = %event_id,
                    attempt_id = %attempt_id,
                    "the claim lapsed before its outcome was recorded; another attempt decides"
                );
                Next::Turn
            }
            Err(error) => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
                if is_store_failure(error) {
                    readiness.set(ReadinessReason::StoreUnavailable, true);
                }
                // Once a streak; the rest of it is counted and waited out.
                if failures == 1 {
                    tracing::warn!(error = %crate::chain(error), "a relay turn failed");
                }
                Next::Rest
            }
        };
        let goes_on = match next {
            Next::Turn => rest.end(),
            Next::Search => rest.search(),
            Next::Rest => rest.take(backoff(poll_interval, failures), &mut stop).await,
            Next::Leave => false,
        };
        if !goes_on {
            return;
        }
    }
}

/// What a worker does after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// There is work: another turn at once.
    Turn,
    /// A bounded look found none and goes on.
    Search,
    /// There is none, or something fails.
    Rest,
    /// The process stops.
    Leave,
}

/// The poll interval, doubled with each failure of a streak.
pub(super) fn backoff(poll_interval: Duration, failures: u32) -> Duration {
    poll_interval
        .saturating_mul(1 << failures.min(16))
        .min(LONGEST_PAUSE.max(poll_interval))
}

fn is_store_failure(error: &RelayError) -> bool {
    !matches!(
        error,
        RelayError::Claim(application_core::ports::ClaimError::Corrupt { .. })
    )
}
