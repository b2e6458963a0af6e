//! `countersign serve`: the relay of one profile, until it is told to stop.
//!
//! Invariant: stopping follows requirement 004 §17.9: claim no more, let attempts end, close the
//! producer, journal what came late, then close the store.

use crate::compose::{
    ComposeError, Milestone, Milestones, Provider, RelaySystem, Store, contracts,
};
use crate::config::{ActiveProfile, ExpectedState, Profile, ProviderProfile, StoreProfile};
use application_core::ports::OutboxMessagePublishPort;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long producer, late drain and store may take to close.
const CLOSING_LIMIT: Duration = Duration::from_secs(20);

/// Why serving ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The profile could not be composed.
    #[error("the profile could not be started")]
    Compose(#[from] ComposeError),
    /// Signals cannot be received.
    #[error("termination signals cannot be received")]
    Signals(#[source] std::io::Error),
    /// A worker or another loop died of a defect; the log says which.
    #[error("a part of the relay died; the process stopped rather than go on without it")]
    Died,
    /// A data folder was named for a tuple that has none.
    #[error("--data-dir is for the embedded tuple; this profile keeps its data elsewhere")]
    DataDir,
}

/// Serves until SIGINT or SIGTERM; SIGHUP replaces the producer's generation. A disabled profile waits
/// for the end with nothing open.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(profile: Profile, data_dir: Option<PathBuf>) -> Result<(), ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let ExpectedState::Active(active) = profile.state else {
        tracing::info!("expected-state is DISABLED: nothing is open");
        signals.stop().await;
        return Ok(());
    };
    let active = in_folder(*active, data_dir.as_deref())?;
    let serving = Serving::start(&active, |publisher| publisher).await?;
    let died = loop {
        tokio::select! {
            asked = signals.next() => match asked {
                Asked::Stop => break false,
                Asked::Rotate if serving.system.rotate() => {}
                Asked::Rotate => tracing::info!("this tuple has no producer to replace"),
            },
            () = serving.system.died() => break true,
        }
    };
    tracing::info!("stopping");
    tokio::select! {
        () = serving.stop() => {}
        () = signals.stop() => tracing::warn!("stopping at once, as asked twice"),
    }
    if died { Err(ServeError::Died) } else { Ok(()) }
}

/// One profile that is being served.
pub struct Serving {
    system: RelaySystem,
    provider: Provider,
    store: Store,
    milestones: Milestones,
}

impl Serving {
    /// Everything static and every secret of the producer first, then the store, the producer, and last
    /// the relay (requirement 004
    /// §17.10). `wrap` may put something around the publisher.
    ///
    /// # Errors
    /// [`ComposeError`].
    pub async fn start(
        active: &ActiveProfile,
        wrap: impl FnOnce(Arc<dyn OutboxMessagePublishPort>) -> Arc<dyn OutboxMessagePublishPort>,
    ) -> Result<Self, ComposeError> {
        let compiled = contracts::compile(active)?;
        let provider = Provider::prepare(&compiled)?;
        let store = Store::open(&compiled).await?;
        let provider = provider.open().await?;
        let system = RelaySystem::start(&compiled, store.relay_ports(), &provider, wrap);
        tracing::info!(
            producer = active.tuple.card("publication.producer-profile"),
            catalog = %compiled.catalog_revision().to_hex(),
            producer_memory_bytes = compiled.producer_memory().map(|bound| bound.total()),
            "relay started; this tuple is not promoted"
        );
        Ok(Self {
            system,
            provider,
            store,
            milestones: compiled.milestones,
        })
    }

    /// What it has reached.
    pub fn milestones(&self) -> Milestones {
        self.milestones.clone()
    }

    /// The relay.
    pub fn system(&self) -> &RelaySystem {
        &self.system
    }

    /// Claims no more, lets attempts end, closes the producer, journals what came late, and closes the
    /// store last (requirement 004 §17.9).
    pub async fn stop(self) {
        let Self {
            mut system,
            provider,
            store,
            milestones,
        } = self;
        if !system.stop_claiming().await {
            tracing::warn!(
                "an attempt did not end in time; its claim stands until the lease lapses"
            );
        }
        let closing = async {
            provider.close().await;
            milestones.reach(Milestone::ProducerClosed);
            system.finish().await;
            store.close().await;
            milestones.reach(Milestone::StoreClosed);
        };
        if tokio::time::timeout(CLOSING_LIMIT, closing).await.is_err() {
            tracing::warn!("the store or the broker did not answer; their connections are dropped");
        }
    }
}

/// Moves the embedded tuple's files into a folder.
///
/// # Errors
/// [`ServeError::DataDir`] for a tuple without files.
pub fn in_folder(
    mut active: ActiveProfile,
    folder: Option<&Path>,
) -> Result<ActiveProfile, ServeError> {
    let Some(folder) = folder else {
        return Ok(active);
    };
    match (&mut active.store, &mut active.provider) {
        (StoreProfile::Sqlite { path }, ProviderProfile::Journal(journal)) => {
            *path = folder.join("countersign.db");
            journal.path = folder.join("events.journal");
            Ok(active)
        }
        _ => Err(ServeError::DataDir),
    }
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// SIGINT or SIGTERM.
    Stop,
    /// SIGHUP: another producer generation, of secrets as they are now.
    Rotate,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Rotate,
        }
    }

    async fn stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
}
