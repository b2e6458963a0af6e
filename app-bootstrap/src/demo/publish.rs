//! Running the relay until nothing is left for it to do.
//!
//! Invariant: the store says when it is done, not the relay. What makes no progress is given up
//! with a word for the summary, which says the rest.

use super::error::DemoError;
use super::flaky::FailsOnce;
use super::progress::Progress;
use crate::compose::{Compiled, Provider, RelayPorts, RelaySystem};
use crate::runtime::StopSwitch;
use application_core::ports::OutboxCounts;
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::EventId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the store is asked.
const LOOK: Duration = Duration::from_millis(50);
/// How long without any change before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Publishes everything that is due or will be; `fails_once` is rejected the first time. Tells why
/// it gave up, where it did.
pub(super) async fn publish(
    compiled: &Compiled,
    ports: &RelayPorts,
    provider: &Provider,
    fails_once: Option<EventId>,
    progress: &Progress,
) -> Result<Option<String>, DemoError> {
    if let Some(event) = &fails_once {
        progress.say(&format!(
            "planted: the first attempt to publish {event} is rejected"
        ));
    }
    let mut system = RelaySystem::start(compiled, ports, provider, |publisher| match fails_once {
        Some(event) => Arc::new(FailsOnce::new(publisher, event)),
        None => publisher,
    });
    let outcome = wait_until_settled(&system, ports, progress).await;
    system.stop_claiming().await;
    system.finish().await;
    outcome
}

async fn wait_until_settled(
    system: &RelaySystem,
    ports: &RelayPorts,
    progress: &Progress,
) -> Result<Option<String>, DemoError> {
    let (_switch, mut never) = StopSwitch::new();
    let mut last: Option<OutboxCounts> = None;
    let mut changed = Instant::now();
    let bar = progress.bar(Some(0), "publish");
    loop {
        let counts = ports.query.counts().await.map_err(DemoError::Query)?;
        let pending = pending(&counts);
        bar.set_length(counts.events);
        bar.set_position(counts.events.saturating_sub(pending));
        if pending == 0 {
            bar.finish_and_clear();
            return Ok(None);
        }
        if last.as_ref() != Some(&counts) {
            changed = Instant::now();
            last = Some(counts);
        } else if changed.elapsed() > PATIENCE {
            let reasons: Vec<_> = system
                .readiness()
                .reasons()
                .into_iter()
                .map(|reason| reason.as_str())
                .collect();
            let why = if reasons.is_empty() {
                String::new()
            } else {
                format!(" ({})", reasons.join(", "))
            };
            return Ok(Some(format!(
                "publication made no progress for {} s{why}",
                PATIENCE.as_secs()
            )));
        }
        never.stopped_within(LOOK).await;
    }
}

/// Deliveries that the relay may still move.
fn pending(counts: &OutboxCounts) -> u64 {
    [
        DeliveryStateName::Ready,
        DeliveryStateName::Claimed,
        DeliveryStateName::RetryWait,
    ]
    .iter()
    .filter_map(|state| counts.by_state.get(state))
    .sum()
}
