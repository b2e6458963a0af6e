//! Relay workers: turn after turn until stopped.
//!
//! Invariant: a worker finishes the turn it is in before it stops, so no attempt is abandoned by
//! an orderly shutdown.

use super::{Alarm, Readiness, ReadinessReason, StopSignal};
use application_core::ports::AdmissionRefusal;
use application_core::usecase::{RelayError, RelayOneRecord, RelayTurn};
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

impl RelayWorkers {
    /// Starts `count` workers that share the relay's ports; one that dies raises the alarm.
    pub fn start(
        relay: &RelayOneRecord,
        count: u32,
        poll_interval: Duration,
        readiness: &Readiness,
        stop: &StopSignal,
        alarm: &Alarm,
    ) -> Self {
        let counters = Arc::new(RelayCounters::default());
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(alarm.clone().guard(work(
                relay.clone(),
                poll_interval,
                readiness.clone(),
                stop.clone(),
                Arc::clone(&counters),
            )));
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

async fn work(
    relay: RelayOneRecord,
    poll_interval: Duration,
    readiness: Readiness,
    mut stop: StopSignal,
    counters: Arc<RelayCounters>,
) {
    let mut failures = 0_u32;
    while !stop.is_stopped() {
        let turn = relay.execute().await;
        failures = if turn.is_err() { failures + 1 } else { 0 };
        let pause = match &turn {
            Ok(RelayTurn::Refused(AdmissionRefusal::Closing)) => return,
            Ok(RelayTurn::Refused(refusal)) => {
                readiness.set(
                    ReadinessReason::ProviderNotReady,
                    *refusal == AdmissionRefusal::ProviderNotReady,
                );
                true
            }
            Ok(RelayTurn::Idle) => {
                readiness.set(ReadinessReason::ProviderNotReady, false);
                readiness.set(ReadinessReason::StoreUnavailable, false);
                true
            }
            Ok(RelayTurn::Persisted { .. }) => {
                counters.persisted.fetch_add(1, Ordering::Relaxed);
                readiness.set(ReadinessReason::ProviderNotReady, false);
                readiness.set(ReadinessReason::StoreUnavailable, false);
                false
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
                false
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
                false
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
                true
            }
        };
        if pause && stop.stopped_within(backoff(poll_interval, failures)).await {
            return;
        }
    }
}

/// The poll interval, doubled with each failure of a streak.
fn backoff(poll_interval: Duration, failures: u32) -> Duration {
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
