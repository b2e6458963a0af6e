//! The producer of one process: its first generation, its watch, and its end.
//!
//! Invariant: at most one generation is at work. Replacing it is the application's rotation, by the
//! primitives of `lifecycle`. A misroute is never answered by a new generation; it waits for an
//! operator (requirement 004 §§15.5, 16.7, 16.10, 17.9–17.10).

use crate::attestation::AttestationError;
use crate::context::Standing;
use crate::generation::{CreateError, DrainReport, KafkaProducerGeneration, ProducerUsage};
use crate::publisher::KafkaPublisher;
use crate::settings::ProducerConfiguration;
use application_core::Cause;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{MonotonicClockPort, WallClockPort};
use domain_core::identity::ProducerGeneration;
use domain_core::instant::DatabaseInstant;
use domain_core::publication::FailureClass;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What the producer takes from its process.
#[derive(Clone)]
pub struct ProducerHost {
    /// The clock of every deadline.
    pub clock: Arc<dyn MonotonicClockPort>,
    /// The clock of acknowledgements.
    pub wall_clock: Arc<dyn WallClockPort>,
    /// Names each generation anew.
    pub generation_ids: Arc<dyn Fn() -> ProducerGeneration + Send + Sync>,
}

/// Whether records can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProducerReadiness {
    /// No generation was attested yet.
    NotStarted,
    /// This generation admits records.
    Ready(ProducerGeneration),
    /// The generation stands, but no broker answers.
    BrokerAway,
    /// The generation is being replaced.
    Rotating,
    /// A fault ended the generation, or none could be started; a rotation makes the next one.
    Recovering(FailureClass),
    /// A fault ended the generation and it was drained, but permits of it are still out: attempts
    /// whose outcome is not recorded. The next one begins when the last of them is back.
    AwaitingPermits(FailureClass),
    /// The broker stored a record on another topic than the compiled one. Only an operator may
    /// let this producer go on.
    HaltedByMisroute,
    /// The process is stopping.
    Closing,
}

/// Why the producer did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The client could not be made.
    #[error("the Kafka client could not be made")]
    Create(#[from] CreateError),
    /// Brokers or topics are not as they should be.
    #[error("the Kafka topology could not be attested")]
    Attestation(#[from] AttestationError),
    /// The process began to stop meanwhile.
    #[error("the process is stopping")]
    Closing,
}

impl StartError {
    /// Whether a rotation may cure it without an operator.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Attestation(error) if error.is_transient())
    }

    /// The stable class.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Create(_) => FailureClass::ProviderFatal,
            Self::Attestation(error) => error.class(),
            Self::Closing => FailureClass::ClientClosed,
        }
    }
}

/// Reads secrets and settings as they are now.
pub type MaterialSource = Arc<dyn Fn() -> Result<ProducerConfiguration, Cause> + Send + Sync>;

/// Which generations there are.
#[derive(Default)]
pub(crate) struct Generations {
    /// The one at work; callers reach no other.
    pub(crate) current: Option<Arc<KafkaProducerGeneration>>,
    /// The one that is being replaced, until its last permit is back.
    pub(crate) retiring: Option<Arc<KafkaProducerGeneration>>,
    /// The one that is to follow.
    pub(crate) candidate: Option<(Arc<KafkaProducerGeneration>, ProducerConfiguration)>,
    /// Settings that were read for it.
    pub(crate) resolved: Option<ProducerConfiguration>,
}

/// What publisher, supervisor and lifecycle share.
pub(crate) struct Shared {
    /// What the last generation that worked was made of.
    pub(crate) configuration: Mutex<ProducerConfiguration>,
    pub(crate) source: MaterialSource,
    pub(crate) host: ProducerHost,
    pub(crate) late: Arc<LateObservationQueue>,
    pub(crate) generations: Mutex<Generations>,
    readiness: watch::Sender<ProducerReadiness>,
    /// Counts generations that were put to work.
    installed: watch::Sender<u64>,
    closing: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn current(&self) -> Option<Arc<KafkaProducerGeneration>> {
        self.lock().current.clone()
    }

    pub(crate) fn configuration(&self) -> ProducerConfiguration {
        let configuration = self.configuration.lock();
        configuration
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts the first generation to work, unless there is one or the process stops. Decided under the
    /// lock that [`KafkaProducer::shut_down`] takes after it announced itself, so no generation
    /// slips in behind it.
    fn install(
        &self,
        generation: &Arc<KafkaProducerGeneration>,
    ) -> Result<(), Result<ProducerGeneration, StartError>> {
        let mut generations = self.lock();
        if self.is_closing() {
            return Err(Err(StartError::Closing));
        }
        if let Some(at_work) = generations.current.as_ref() {
            return Err(Ok(at_work.id().clone()));
        }
        generations.current = Some(Arc::clone(generation));
        drop(generations);
        self.count_installed();
        Ok(())
    }

    pub(crate) fn count_installed(&self) {
        self.installed.send_modify(|count| *count += 1);
    }

    pub(crate) fn late(&self) -> &LateObservationQueue {
        &self.late
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub(crate) fn announce(&self, readiness: ProducerReadiness) {
        self.readiness.send_if_modified(|current| {
            let changes = *current != ProducerReadiness::Closing && *current != readiness;
            if changes {
                *current = readiness;
            }
            changes
        });
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The producer of one process.
pub struct KafkaProducer {
    pub(crate) shared: Arc<Shared>,
}

impl KafkaProducer {
    /// Takes a compiled configuration, which every generation will be made of. Opens nothing.
    pub fn new(configuration: ProducerConfiguration, host: ProducerHost) -> Self {
        let same = configuration.clone();
        Self::of_source(configuration, Arc::new(move || Ok(same.clone())), host)
    }

    /// Takes the configuration of the first generation, and where those of later ones are read.
    pub fn of_source(
        configuration: ProducerConfiguration,
        source: MaterialSource,
        host: ProducerHost,
    ) -> Self {
        let capacity = configuration.settings.maximum_late_observations;
        Self {
            shared: Arc::new(Shared {
                late: Arc::new(LateObservationQueue::new(
                    usize::try_from(capacity).unwrap_or(usize::MAX),
                )),
                configuration: Mutex::new(configuration),
                source,
                host,
                generations: Mutex::default(),
                readiness: watch::Sender::new(ProducerReadiness::NotStarted),
                installed: watch::Sender::new(0),
                closing: watch::Sender::new(false),
            }),
        }
    }

    /// The ports. Before [`KafkaProducer::start`] nothing is admitted.
    pub fn publisher(&self) -> KafkaPublisher {
        KafkaPublisher::new(Arc::clone(&self.shared))
    }

    /// When the first of the pinned certificate authorities will have expired, where there are any.
    pub fn earliest_expiry(&self) -> Option<DatabaseInstant> {
        self.shared.configuration().security().earliest_expiry()
    }

    /// Readiness, to be watched.
    pub fn readiness(&self) -> watch::Receiver<ProducerReadiness> {
        self.shared.readiness.subscribe()
    }

    /// What the generation at work holds, if there is one.
    pub fn usage(&self) -> Option<ProducerUsage> {
        self.shared.current().map(|generation| generation.usage())
    }

    /// Makes the first generation and attests it. After a transient error a rotation may try again;
    /// any other is a fault of the deployment.
    /// A generation that is already at work stays, and its id is the answer.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(&self) -> Result<ProducerGeneration, StartError> {
        let started = self.start_generation().await;
        if let Err(error) = &started {
            self.shared
                .announce(ProducerReadiness::Recovering(error.class()));
        }
        started
    }

    async fn start_generation(&self) -> Result<ProducerGeneration, StartError> {
        let shared = &self.shared;
        let generation = KafkaProducerGeneration::create(
            &shared.configuration(),
            &shared.host,
            Arc::clone(&shared.late),
        )?;
        if let Err(error) = generation.attest().await {
            generation.close().await;
            return Err(error.into());
        }
        let id = generation.id().clone();
        match shared.install(&generation) {
            Ok(()) => {
                self.shared.announce(ProducerReadiness::Ready(id.clone()));
                Ok(id)
            }
            Err(refusal) => {
                generation.close().await;
                refusal
            }
        }
    }

    /// Watches the generations' brokers, until [`KafkaProducer::shut_down`]. One task of the process
    /// runs it.
    pub async fn supervise(&self) {
        let mut closing = self.shared.closing.subscribe();
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => {}
            () = self.watch_brokers() => {}
        }
    }

    async fn watch_brokers(&self) {
        let mut installed = self.shared.installed.subscribe();
        loop {
            installed.borrow_and_update();
            let Some(generation) = self.shared.current() else {
                // The sender lives as long as this borrow.
                let _ = installed.changed().await;
                continue;
            };
            tokio::select! {
                _ = installed.changed() => {}
                () = away(&generation) => self.find_brokers(&generation).await,
            }
        }
    }

    /// Waits until a fault ends the generation at work, and says which. A misroute is none: nothing
    /// replaces that generation. Does not return once the process is stopping.
    pub async fn ended(&self) -> FailureClass {
        let mut installed = self.shared.installed.subscribe();
        loop {
            installed.borrow_and_update();
            let ended = async {
                match self.shared.current() {
                    Some(generation) => stopped(&generation).await,
                    None => std::future::pending().await,
                }
            };
            let class = tokio::select! {
                _ = installed.changed() => continue,
                class = ended => class,
            };
            tracing::error!(%class, "the Kafka producer generation is stopped");
            if self.shared.is_closing() || class == FailureClass::DestinationMismatch {
                if class == FailureClass::DestinationMismatch {
                    self.shared.announce(ProducerReadiness::HaltedByMisroute);
                }
                return std::future::pending().await;
            }
            self.shared.announce(ProducerReadiness::Recovering(class));
            return class;
        }
    }

    /// Asks for a sign of life until there is one or the generation is stopped.
    async fn find_brokers(&self, generation: &Arc<KafkaProducerGeneration>) {
        let settings = self.shared.configuration().settings;
        let mut delay = settings.recovery_minimum_delay;
        self.shared.announce(ProducerReadiness::BrokerAway);
        loop {
            let standing = *generation.standing().borrow();
            if standing.stopped.is_some() || standing.draining {
                return;
            }
            if !standing.broker_away || generation.probe().await.is_ok() {
                self.shared
                    .announce(ProducerReadiness::Ready(generation.id().clone()));
                return;
            }
            self.pause(delay).await;
            delay = (delay * 2).min(settings.recovery_maximum_delay);
        }
    }

    /// Waits for the process to stop, a bounded time.
    async fn pause(&self, delay: Duration) {
        let mut closing = self.shared.closing.subscribe();
        let _ = tokio::time::timeout(delay, closing.wait_for(|closing| *closing)).await;
    }

    /// Admits nothing any more, drains what is under way a bounded time, and closes the client.
    /// What the report counts as unresolved is `INDETERMINATE`.
    pub async fn shut_down(&self) -> DrainReport {
        self.shared.announce(ProducerReadiness::Closing);
        self.shared.closing.send_replace(true);
        // A rotation that is under way ends at its next step; what it holds is closed here.
        let (at_work, candidate) = {
            let mut generations = self.shared.lock();
            let at_work = generations.current.clone().or(generations.retiring.take());
            (at_work, generations.candidate.take())
        };
        if let Some((candidate, _)) = candidate {
            candidate.close().await;
        }
        let Some(generation) = at_work else {
            return DrainReport {
                unresolved: 0,
                permits_out: 0,
            };
        };
        let budget = self.shared.configuration().settings.drain_timeout;
        let report = generation.drain(budget).await;
        generation.close().await;
        report
    }
}

/// Waits until no broker answers a generation that could go on.
async fn away(generation: &KafkaProducerGeneration) {
    let is_away = |standing: &Standing| {
        standing.broker_away && standing.stopped.is_none() && !standing.draining
    };
    if generation.standing().wait_for(is_away).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until a fault ends the generation.
async fn stopped(generation: &KafkaProducerGeneration) -> FailureClass {
    let mut standing = generation.standing();
    let ended = standing
        .wait_for(|standing| standing.stopped.is_some())
        .await;
    match ended.ok().and_then(|standing| standing.stopped) {
        Some(class) => generation.class_behind(class),
        // The sender lives as long as the generation.
        None => std::future::pending().await,
    }
}
