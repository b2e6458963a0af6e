//! Replacing the producer's generation: when somebody asks, when a secret's content changes, and when a
//! fault ended the generation at work.
//!
//! Invariant: one rotation at a time, and what is asked for meanwhile is not forgotten. A generation of
//! the previous material is replaced again before its time is over (requirement 004 §§16.10, 21.7).

use super::StopSignal;
use super::secret_watch::SecretWatch;
use application_core::rotation::{RotationCause, RotationEnd};
use application_core::usecase::RotateProducer;
use domain_core::publication::FailureClass;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Asks for a rotation.
#[derive(Debug, Clone, Default)]
pub struct RotationRequest(Arc<Notify>);

impl RotationRequest {
    /// A rotation begins as soon as none is under way.
    pub fn ask(&self) {
        self.0.notify_one();
    }
}

/// What the loop is given.
pub(crate) struct RotationLoop {
    pub(crate) rotate: Arc<RotateProducer>,
    pub(crate) request: RotationRequest,
    /// The secrets that are looked at, and how often.
    pub(crate) secrets: Option<SecretWatch>,
    /// Why no generation could be started, where none was.
    pub(crate) not_started: Option<FailureClass>,
    /// The pause before new material that did not work is tried again.
    pub(crate) retry_after: Duration,
}

impl RotationLoop {
    /// Until stopped. `ended` tells what ended the generation at work.
    pub(crate) async fn run<F>(mut self, ended: impl Fn() -> F, mut stop: StopSignal)
    where
        F: Future<Output = FailureClass>,
    {
        let mut due = self.not_started.map(RotationCause::NotStarted);
        loop {
            let cause = match due.take() {
                Some(cause) => cause,
                None => tokio::select! {
                    _ = stop.stopped_within(Duration::MAX) => return,
                    cause = self.next_cause(&ended) => cause,
                },
            };
            tracing::info!(
                cause = cause.as_str(),
                "the producer generation is being replaced"
            );
            let end = tokio::select! {
                _ = stop.stopped_within(Duration::MAX) => return,
                end = self.rotate.execute(cause) => end,
            };
            match end {
                RotationEnd::Renewed => tracing::info!("the producer generation was replaced"),
                RotationEnd::FellBack => tracing::warn!(
                    previous_left = ?self.rotate.previous_left(),
                    "the new material did not work; a generation of the previous one goes on for now"
                ),
                RotationEnd::Misrouted => {
                    tracing::error!("the producer is halted by a misroute until an operator acts");
                    return;
                }
                RotationEnd::Stopped => return,
            }
        }
    }

    async fn next_cause<F>(&mut self, ended: &impl Fn() -> F) -> RotationCause
    where
        F: Future<Output = FailureClass>,
    {
        let retry = self
            .rotate
            .previous_left()
            .map(|left| left.min(self.retry_after));
        tokio::select! {
            biased;
            class = ended() => RotationCause::GenerationEnded(class),
            () = self.request.0.notified() => RotationCause::Asked,
            () = changed(self.secrets.as_mut()) => RotationCause::SecretChanged,
            () = elapsed(retry) => RotationCause::Asked,
        }
    }
}

async fn changed(secrets: Option<&mut SecretWatch>) {
    match secrets {
        Some(secrets) => secrets.changed().await,
        None => std::future::pending().await,
    }
}

async fn elapsed(pause: Option<Duration>) {
    let pause = pause.unwrap_or(Duration::MAX);
    // Only the time can end this.
    let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
}

#[cfg(test)]
#[path = "rotation_loop_tests.rs"]
mod tests;
