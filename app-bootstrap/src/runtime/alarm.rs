//! Noticing that a task of the process died.
//!
//! Invariant: a task that panics raises the alarm, so that no process lives on without a part of
//! it; a task that ends or is cancelled does not.

use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// Raised once, seen by everybody who waits.
#[derive(Debug, Clone)]
pub struct Alarm(Arc<watch::Sender<bool>>);

impl Default for Alarm {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Alarm {
    /// Waits until a guarded task dies.
    pub async fn raised(&self) {
        // The sender lives as long as this borrow of it.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }

    /// Runs a task under the alarm.
    pub async fn guard(self, task: impl Future<Output = ()>) {
        let armed = Armed(self);
        task.await;
        drop(armed);
    }
}

struct Armed(Alarm);

impl Drop for Armed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_panic_raises_it_and_an_orderly_end_does_not() {
        let alarm = Alarm::default();
        tokio::spawn(alarm.clone().guard(async {}))
            .await
            .expect("ends");
        let quiet = tokio::time::timeout(Duration::from_millis(20), alarm.raised()).await;
        assert!(quiet.is_err());
        let died = tokio::spawn(alarm.clone().guard(async { panic!("planted") })).await;
        assert!(died.is_err());
        let raised = tokio::time::timeout(Duration::from_secs(5), alarm.raised()).await;
        assert!(raised.is_ok());
    }
}
