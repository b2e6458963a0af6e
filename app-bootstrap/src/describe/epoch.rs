//! Following the store's epoch, which operators may switch while processes run.
//!
//! Invariant: one bounded read at a time; a read that fails leaves what was read last, and the
//! readiness of the store is said elsewhere.

use super::RuntimeStatus;
use crate::runtime::StopSignal;
use application_core::ports::PublicationAuthorityPort;
use std::sync::Arc;
use std::time::Duration;

/// How often the epoch is read.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reads the ACTIVE epoch, until stopped.
pub(crate) async fn watch_epoch(
    authority: Arc<dyn PublicationAuthorityPort>,
    status: Arc<RuntimeStatus>,
    mut stop: StopSignal,
) {
    loop {
        if let Ok(epoch) = authority.active_epoch().await {
            status.epoch_is(epoch);
        }
        if stop.stopped_within(INTERVAL).await {
            return;
        }
    }
}
