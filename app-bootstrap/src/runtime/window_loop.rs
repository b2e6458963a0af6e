//! Workers of the window claim card: turn after turn until stopped.
//!
//! Invariant: a stopped worker claims nothing more and records what it has under way; what does not
//! end in time keeps its claims until their leases lapse.

use super::relay_loop::{Next, RelayCounters, Surroundings, backoff};
use super::scout::{Rest, Scouts};
use super::{Readiness, ReadinessReason, StopSignal};
use application_core::ports::{AdmissionRefusal, ClaimError, PartitionShare};
use application_core::usecase::{
    RelayWindow, Supply, WindowError, WindowPorts, WindowSettings, WindowTurn,
};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One worker with its share of the scopes, until the stop.
pub(super) fn work(
    ports: &WindowPorts,
    settings: &WindowSettings,
    share: PartitionShare,
    surroundings: Surroundings,
) -> impl Future<Output = ()> + Send + 'static {
    let Surroundings {
        counters,
        scouts,
        readiness,
        stop,
    } = surroundings;
    let worker = Worker {
        relay: RelayWindow::new(ports.clone(), settings.clone()),
        share,
        poll_interval: settings.poll_interval,
        counters,
        readiness,
    };
    worker.run(scouts, stop)
}

struct Worker {
    relay: RelayWindow,
    share: PartitionShare,
    poll_interval: Duration,
    counters: Arc<RelayCounters>,
    readiness: Readiness,
}

impl Worker {
    async fn run(mut self, scouts: Scouts, mut stop: StopSignal) {
        let mut rest = Rest::new(&scouts);
        let mut failures = 0_u32;
        while !stop.is_stopped() {
            // Whoever is on watch looks everywhere, the others at their own share.
            let everywhere = rest.is_on_watch() && self.relay.under_way() == 0;
            self.relay.look_at(if everywhere {
                PartitionShare::WHOLE
            } else {
                self.share
            });
            let turn = self.relay.turn().await;
            failures = if turn.is_err() { failures + 1 } else { 0 };
            let goes_on = match self.after(&turn, failures) {
                Next::Turn => rest.end(),
                Next::Search => rest.search_together(),
                Next::Rest => {
                    rest.take(backoff(self.poll_interval, failures), &mut stop)
                        .await
                }
                Next::Leave => false,
            };
            if !goes_on {
                break;
            }
        }
        drop(rest);
        while self.relay.under_way() > 0 {
            let turn = self.relay.finish_turn().await;
            self.after(&turn, 0);
        }
    }

    /// Counts, logs and tells what is next.
    fn after(&self, turn: &Result<WindowTurn, WindowError>, failures: u32) -> Next {
        match turn {
            Ok(turn) => {
                self.count(turn);
                match turn.supply {
                    Supply::Refused(AdmissionRefusal::Closing) => Next::Leave,
                    Supply::Refused(refusal) => {
                        self.readiness.set(
                            ReadinessReason::ProviderNotReady,
                            refusal == AdmissionRefusal::ProviderNotReady,
                        );
                        if turn.under_way > 0 {
                            Next::Turn
                        } else {
                            Next::Rest
                        }
                    }
                    supply => {
                        self.readiness.set(ReadinessReason::ProviderNotReady, false);
                        self.readiness.set(ReadinessReason::StoreUnavailable, false);
                        match supply {
                            Supply::Dry if turn.under_way == 0 => Next::Rest,
                            Supply::Searching if turn.under_way == 0 => Next::Search,
                            _ => Next::Turn,
                        }
                    }
                }
            }
            Err(error) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                if !matches!(error, WindowError::Claim(ClaimError::Corrupt { .. })) {
                    self.readiness.set(ReadinessReason::StoreUnavailable, true);
                }
                if failures <= 1 {
                    tracing::warn!(error = %crate::chain(error), "a relay turn failed");
                }
                Next::Rest
            }
        }
    }

    fn count(&self, turn: &WindowTurn) {
        self.counters
            .persisted
            .fetch_add(turn.persisted, Ordering::Relaxed);
        for spent in &turn.spent {
            tracing::warn!(
                event_id = %spent.event_id,
                generation = spent.generation.value(),
                reason = spent.reason.as_str(),
                "delivery exhausted without a further send"
            );
        }
        for (event_id, attempt_id) in &turn.stale {
            self.counters.stale.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                event_id = %event_id,
                attempt_id = %attempt_id,
                "the claim lapsed before its outcome was recorded; another attempt decides"
            );
        }
    }
}
