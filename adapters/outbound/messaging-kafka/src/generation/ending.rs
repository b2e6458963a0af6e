//! How a generation ends: paused, drained, given up, closed.
//!
//! Invariant: each step is bounded, may be taken again, and says what it left; once closed, nobody uses
//! the client any more (requirement 004 §§16.8, 16.10, 17.9).

use super::{DrainReport, KafkaProducerGeneration};
use domain_core::publication::FailureClass;
use rdkafka::producer::Producer as _;
use std::sync::Arc;
use std::time::Duration;

impl KafkaProducerGeneration {
    /// Admits nothing any more.
    pub(crate) fn pause(&self) {
        self.context.update(|standing| standing.draining = true);
    }

    /// Admits nothing any more, then waits for what is under way, at most `budget`.
    pub(crate) async fn drain(self: &Arc<Self>, budget: Duration) -> DrainReport {
        self.context.update(|standing| standing.draining = true);
        let began = self.clock.now();
        // Elapsed or not, the report says what is left.
        let _ = tokio::time::timeout(budget, self.gate.idle()).await;
        let left = budget.saturating_sub(began.until(self.clock.now()));
        let this = Arc::clone(self);
        let flushed = tokio::task::spawn_blocking(move || {
            if let Some(client) = this.client() {
                // An empty queue is not acceptance, and a full one not refusal: each record's own
                // report decides, so the answer itself says nothing.
                let _ = client.flush(left);
            }
        });
        let _ = flushed.await;
        DrainReport {
            unresolved: self.context.unresolved(),
            permits_out: self.gate.outstanding(),
        }
    }

    /// Ends every wait for an answer, and waits until the permits are back, at most `limit`.
    pub(crate) async fn abandon(&self, limit: Duration) -> DrainReport {
        self.context.update(|standing| {
            standing.draining = true;
            standing.abandoned = true;
        });
        // Elapsed or not, the report says what is left.
        let _ = tokio::time::timeout(limit, self.gate.idle()).await;
        DrainReport {
            unresolved: self.context.unresolved(),
            permits_out: self.gate.outstanding(),
        }
    }

    /// Ends the client. What it still held is reported as purged, which is `INDETERMINATE`.
    pub(crate) async fn close(&self) {
        self.begin_close();
        // The sender is dropped with the client.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Ends the client and waits for its end, at most `limit`; tells whether it has ended.
    pub(crate) async fn close_within(&self, limit: Duration) -> bool {
        self.begin_close();
        let mut closed = self.closed.subscribe();
        let waited = tokio::time::timeout(limit, closed.wait_for(|closed| *closed));
        waited.await.is_ok()
    }

    fn begin_close(&self) {
        // Nobody can ask the client for it any more.
        let behind = self.stopped_by();
        self.context.update(|standing| {
            standing.draining = true;
            if standing.stopped == Some(FailureClass::ProviderFatal) {
                standing.stopped = behind;
            }
        });
        let client = self.take_client();
        self.room.close();
        if let Some(client) = client {
            let closed = Arc::clone(&self.closed);
            // Blocks until whoever uses the client has given it back and its threads have ended.
            tokio::task::spawn_blocking(move || {
                let mut client = client;
                while let Err(in_use) = Arc::try_unwrap(client) {
                    client = in_use;
                    std::thread::park_timeout(Duration::from_millis(1));
                }
                closed.send_replace(true);
            });
        }
    }
}
