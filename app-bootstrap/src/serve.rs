//! `countersign serve`: the relay of one profile, until it is told to stop.
//!
//! Invariant: stopping follows requirement 004 §17.9: claim no more, let attempts end, close the
//! producer, journal what came late, then close the store. From before the store opens until the
//! very end the process tells on its local socket how it stands.

use crate::compose::{ComposeError, Provider, RelaySystem, Store, contracts};
use crate::config::registry::{Promotion, RegistryError};
use crate::config::{
    ActiveProfile, ExpectedState, Profile, ProviderProfile, StartCode, StoreProfile,
};
use crate::describe::{CompiledDescriptor, RuntimeStatus, serve_locally, watch_epoch};
use crate::runtime::StopSwitch;
use inbound_operator_http::SocketError;
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

/// Serves until SIGINT or SIGTERM. A disabled profile waits for them with nothing open.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(profile: Profile, data_dir: Option<PathBuf>) -> Result<(), ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let ExpectedState::Active(active) = profile.state else {
        tracing::info!("expected-state is DISABLED: nothing is open");
        signals.next().await;
        return Ok(());
    };
    let active = in_folder(*active, data_dir.as_deref())?;
    let compiled = contracts::compile(&active)?;
    let status = Arc::new(RuntimeStatus::new(
        active.promotion == Promotion::QualificationOnly,
    ));
    let descriptor = CompiledDescriptor::of(&compiled)?;
    let provider = Provider::prepare(&compiled)?;
    // Held to the end of this function, whichever way it ends.
    let _local = serve_locally(&compiled, descriptor, &status).map_err(ServeError::Socket)?;
    let store = Store::open(&compiled).await?;
    status.store_opened(store.resource_id().clone());
    status.epoch_is(store.authority().active_epoch().await.ok().flatten());
    let provider = provider.open().await?;
    status.producer_opened(provider.view());
    let system = RelaySystem::start(&compiled, store.relay_ports(), &provider, |publisher| {
        publisher
    });
    tracing::info!(
        producer = active.tuple.card("publication.producer-profile"),
        catalog = %compiled.catalog_revision().to_hex(),
        tuple = active.tuple.id(),
        promotion = active.promotion.as_str(),
        "relay started"
    );
    status.started(system.readiness().clone());
    let (stop_epoch, epoch_signal) = StopSwitch::new();
    let authority = Arc::clone(store.authority());
    let epochs = tokio::spawn(watch_epoch(authority, Arc::clone(&status), epoch_signal));
    let died = tokio::select! {
        () = signals.next() => false,
        () = system.died() => true,
    };
    tracing::info!("stopping");
    status.stopping();
    stop_epoch.stop();
    epochs.abort();
    tokio::select! {
        () = stop(system, provider, store) => {}
        () = signals.next() => tracing::warn!("stopping at once, as asked twice"),
    }
    if died { Err(ServeError::Died) } else { Ok(()) }
}

async fn stop(mut system: RelaySystem, provider: Provider, store: Store) {
    if !system.stop_claiming().await {
        tracing::warn!("an attempt did not end in time; its claim stands until the lease lapses");
    }
    let closing = async {
        provider.close().await;
        system.finish().await;
        store.close().await;
    };
    if tokio::time::timeout(CLOSING_LIMIT, closing).await.is_err() {
        tracing::warn!("the store or the broker did not answer; their connections are dropped");
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

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
