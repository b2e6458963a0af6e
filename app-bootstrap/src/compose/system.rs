//! What a composed process is made of.
//!
//! Invariant: the same relay, late drain and readiness run over either tuple.

use super::provider::Provider;
use super::resource::ResourceMismatch;
use crate::config::{ActiveProfile, SecretError};
use crate::runtime::{
    LogReporter, ProcessClock, ProcessEntropy, Readiness, RelayCounters, RelayWorkers, StopSignal,
    StopSwitch, drain_late_observations, watch_unknown_backlog,
};
use application_core::contract::{BindingSetError, ContractKey};
use application_core::ports::{
    EnvelopeCodec, OutboxAttemptObservationPort, OutboxDeliveryPort, OutboxMessagePublishPort,
    OutboxQueryPort,
};
use application_core::usecase::{RecordLateObservations, RelayOneRecord, RelaySettings};
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{TenantMode, WorkerId};
use outbound_contract_json::{
    BindError, BoundCatalog, CompileError, JsonEnvelopeCodec, LockError, ManifestError,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Late observations that one transaction writes.
const LATE_BATCH: usize = 100;
/// How often late observations are drained.
const LATE_INTERVAL: Duration = Duration::from_millis(500);
/// How often unknown rows are counted.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(5);

/// Why a profile could not be composed.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// No contract is named.
    #[error("contracts.manifests is empty while expected-state is ACTIVE")]
    NoContract,
    /// A manifest cannot be used.
    #[error("a contract manifest cannot be used")]
    Manifest(#[source] ManifestError),
    /// Code contributes a contract that the profile does not name.
    #[error("contract {0} is contributed by code, but no manifest of the profile names it")]
    UnnamedContribution(ContractKey),
    /// The contracts make no catalog.
    #[error("the contracts do not compile")]
    Contracts(#[source] CompileError),
    /// The lock file cannot be read.
    #[error("the lock file {} cannot be read", file.display())]
    LockFile {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The lock does not hold the catalog.
    #[error("the lock file {} does not hold the catalog", file.display())]
    Lock {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: LockError,
    },
    /// The bindings make no set.
    #[error("the destinations do not make a set")]
    Bindings(#[source] BindingSetError),
    /// Contracts and bindings do not fit.
    #[error("contracts and destinations do not fit")]
    Bind(#[source] BindError),
    /// A secret cannot be resolved.
    #[error("store.url cannot be resolved")]
    Secret(#[source] SecretError),
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[source] application_core::Cause),
    /// The stores are not one.
    #[error("business, append and relay do not share one store")]
    Resource(#[source] ResourceMismatch),
    /// The provider cannot be opened.
    #[error("the provider cannot be opened")]
    Provider(#[source] application_core::Cause),
}

/// A profile with its compiled contracts.
#[derive(Clone)]
pub struct Compiled {
    /// The profile.
    pub profile: ActiveProfile,
    /// Its contracts and bindings.
    pub catalog: Arc<BoundCatalog>,
    /// The codec over them.
    pub codec: Arc<dyn EnvelopeCodec>,
}

impl Compiled {
    pub(super) fn new(profile: ActiveProfile, catalog: Arc<BoundCatalog>) -> Self {
        let codec = JsonEnvelopeCodec::new(Arc::clone(&catalog), TenantMode::Disabled);
        Self {
            profile,
            catalog,
            codec: Arc::new(codec),
        }
    }

    /// One hash over everything the contracts state.
    pub fn catalog_revision(&self) -> Sha256Digest {
        self.catalog.catalog().revision()
    }
}

/// The relay's side of a store.
#[derive(Clone)]
pub struct RelayPorts {
    /// Tx B and Tx C.
    pub deliveries: Arc<dyn OutboxDeliveryPort>,
    /// Late observations.
    pub observations: Arc<dyn OutboxAttemptObservationPort>,
    /// Reads.
    pub query: Arc<dyn OutboxQueryPort>,
}

/// The running relay of one process.
pub struct RelaySystem {
    stop: StopSwitch,
    workers: RelayWorkers,
    background: Vec<JoinHandle<()>>,
    readiness: Readiness,
    drain_limit: Duration,
}

impl RelaySystem {
    /// Starts relay workers, late drain and backlog watch. The provider is ready by now.
    /// `wrap` may put something around the publisher; the demo fails a record with it.
    pub fn start(
        compiled: &Compiled,
        ports: &RelayPorts,
        provider: &Provider,
        wrap: impl FnOnce(Arc<dyn OutboxMessagePublishPort>) -> Arc<dyn OutboxMessagePublishPort>,
    ) -> Self {
        let outbox = &compiled.profile.outbox;
        let known: Arc<[_]> = compiled.catalog.known_records().into();
        let relay = RelayOneRecord {
            admission: provider.admission(),
            deliveries: Arc::clone(&ports.deliveries),
            publisher: crate::failpoints::around(wrap(provider.publisher())),
            codec: Arc::clone(&compiled.codec),
            clock: Arc::new(ProcessClock::start()),
            entropy: Arc::new(ProcessEntropy),
            reporter: Arc::new(LogReporter),
            settings: RelaySettings {
                owner: worker_id(),
                lease: outbox.claim_lease,
                attempt_budget: outbox.attempt_budget,
                publish_budget: outbox.publish_budget,
                retry: outbox.retry,
                known: Arc::clone(&known),
            },
        };
        let (stop, signal) = StopSwitch::new();
        let readiness = Readiness::default();
        let late = RecordLateObservations::new(
            provider.late_observations(),
            Arc::clone(&ports.observations),
            LATE_BATCH,
        );
        let background = vec![
            tokio::spawn(drain_late_observations(
                late,
                provider.late_observations(),
                readiness.clone(),
                LATE_INTERVAL,
                signal.clone(),
            )),
            tokio::spawn(watch_unknown_backlog(
                Arc::clone(&ports.deliveries),
                known,
                readiness.clone(),
                BACKLOG_INTERVAL,
                signal.clone(),
            )),
        ];
        Self {
            workers: start_workers(&relay, outbox, &readiness, &signal),
            stop,
            background,
            readiness,
            drain_limit: outbox.attempt_budget,
        }
    }

    /// Why the relay cannot do its work, if it cannot.
    pub fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// What the workers did so far.
    pub fn counters(&self) -> Arc<RelayCounters> {
        self.workers.counters()
    }

    /// Stops claiming, lets every attempt under way end within its budget, and drains what came
    /// late (requirement 004 §17.9). Tells whether everything ended in time; what did not keeps
    /// its claim until the lease lapses.
    pub async fn stop(self) -> bool {
        self.stop.stop();
        let drained = self.workers.drained_within(self.drain_limit).await;
        for task in self.background {
            // A task that panicked was logged by the panic hook; there is nothing left to do.
            let _ = task.await;
        }
        drained
    }
}

fn start_workers(
    relay: &RelayOneRecord,
    outbox: &crate::config::OutboxProfile,
    readiness: &Readiness,
    signal: &StopSignal,
) -> RelayWorkers {
    RelayWorkers::start(
        relay,
        outbox.maximum_admitted_records,
        outbox.poll_interval,
        readiness,
        signal,
    )
}

/// Names this process among the workers of a store.
fn worker_id() -> WorkerId {
    let name = format!("countersign-{}", uuid::Uuid::now_v7());
    WorkerId::parse(name).expect("a UUID's text is within the grammar")
}
