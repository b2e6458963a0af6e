//! `countersign serve`: the relay of one profile, until it is told to stop.
//!
//! Invariant: stopping follows requirement 004 §17.9: claim no more, let attempts end, close the
//! producer, journal what came late, then close the store. From before the store opens until the
//! very end the process tells on its local socket how it stands.

use crate::compose::{
    ComposeError, Milestone, Milestones, Provider, RelaySystem, Store, contracts,
};
use crate::config::registry::{Promotion, RegistryError};
use crate::config::{
    ActiveProfile, ExpectedState, Profile, ProviderProfile, StartCode, StoreProfile,
};
use crate::describe::{CompiledDescriptor, RuntimeStatus, serve_locally, watch_epoch};
use crate::runtime::StopSwitch;
use application_core::ports::OutboxMessagePublishPort;
use inbound_operator_http::{LocalServer, SocketError};
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
    /// The descriptor's socket cannot be made.
    #[error(
        "the descriptor's socket cannot be made [{}]",
        StartCode::DescriptorSocket
    )]
    Socket(#[source] SocketError),
    /// The registry is broken; only a defect of the build.
    #[error("the registry cannot be used [{}]", StartCode::RegistryInvalid)]
    Registry(#[from] RegistryError),
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
    status: Arc<RuntimeStatus>,
    stop_epochs: StopSwitch,
    epochs: tokio::task::JoinHandle<()>,
    /// Held to the end, whichever way it ends.
    _local: Option<LocalServer>,
}

impl Serving {
    /// Everything static and every secret of the producer first, then the descriptor's socket, the
    /// store, the producer, and last the relay (requirement 004 §17.10). `wrap` may put something
    /// around the publisher.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn start(
        active: &ActiveProfile,
        wrap: impl FnOnce(Arc<dyn OutboxMessagePublishPort>) -> Arc<dyn OutboxMessagePublishPort>,
    ) -> Result<Self, ServeError> {
        let compiled = contracts::compile(active)?;
        let status = Arc::new(RuntimeStatus::new(
            active.promotion == Promotion::QualificationOnly,
        ));
        let descriptor = CompiledDescriptor::of(&compiled)?;
        let provider = Provider::prepare(&compiled)?;
        let local = serve_locally(&compiled, descriptor, &status).map_err(ServeError::Socket)?;
        let store = Store::open(&compiled).await?;
        status.store_opened(store.resource_id().clone());
        status.epoch_is(store.authority().active_epoch().await.ok().flatten());
        let provider = provider.open().await?;
        status.producer_opened(provider.view());
        let system = RelaySystem::start(&compiled, store.relay_ports(), &provider, wrap);
        tracing::info!(
            producer = active.tuple.card("publication.producer-profile"),
            catalog = %compiled.catalog_revision().to_hex(),
            producer_memory_bytes = compiled.producer_memory().map(|bound| bound.total()),
            tuple = active.tuple.id(),
            promotion = active.promotion.as_str(),
            "relay started"
        );
        status.started(system.readiness().clone());
        let (stop_epochs, epoch_signal) = StopSwitch::new();
        let authority = Arc::clone(store.authority());
        let epochs = tokio::spawn(watch_epoch(authority, Arc::clone(&status), epoch_signal));
        Ok(Self {
            system,
            provider,
            store,
            milestones: compiled.milestones,
            status,
            stop_epochs,
            epochs,
            _local: local,
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
            status,
            stop_epochs,
            epochs,
            _local,
        } = self;
        status.stopping();
        stop_epochs.stop();
        epochs.abort();
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
            active.descriptor_socket = folder.join("run/countersign.sock");
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
