//! One switch that stops every loop.
//!
//! Invariant: once thrown it stays thrown.

use std::time::Duration;
use tokio::sync::watch;

/// Throws the switch.
#[derive(Debug)]
pub struct StopSwitch(watch::Sender<bool>);

/// Sees the switch.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSwitch {
    /// A switch and its signal.
    pub fn new() -> (Self, StopSignal) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), StopSignal(receiver))
    }

    /// Stops.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl StopSignal {
    /// Whether the switch was thrown.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the switch, at most this long; tells whether it was thrown. A dropped switch
    /// counts as thrown.
    pub async fn stopped_within(&mut self, pause: Duration) -> bool {
        let thrown = self.0.wait_for(|stopped| *stopped);
        tokio::time::timeout(pause, thrown).await.is_ok()
    }
}
