//! Makes generations, watches them, and replaces the ones that a fault ended.
//!
//! Invariant: at most one generation is at work, and the next begins only after the one before was
//! drained, closed, and given back every permit. A misroute is never answered by a new generation;
//! it waits for an operator (requirement 004 §§15.5, 16.7, 16.10, 17.9–17.10).

use crate::attestation::AttestationError;
use crate::context::Standing;
use crate::generation::{CreateError, DrainReport, KafkaProducerGeneration, ProducerUsage};
use crate::publisher::KafkaPublisher;
use crate::settings::ProducerConfiguration;
use application_core::late_queue::LateObservationQueue;
use application_core::ports::{MonotonicClockPort, WallClockPort};
use domain_core::identity::ProducerGeneration;
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
    /// A fault ended the generation; the next one is on its way.
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
    /// Whether [`KafkaProducer::supervise`] may cure it without an operator.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Attestation(error) if error.is_transient())
    }

    fn class(&self) -> FailureClass {
        match self {
            Self::Create(_) => FailureClass::ProviderFatal,
            Self::Attestation(error) => error.class(),
            Self::Closing => FailureClass::ClientClosed,
        }
    }
}

/// What publisher and supervisor share.
pub(crate) struct Shared {
    configuration: ProducerConfiguration,
    host: ProducerHost,
    late: Arc<LateObservationQueue>,
    current: Mutex<Option<Arc<KafkaProducerGeneration>>>,
    readiness: watch::Sender<ProducerReadiness>,
    closing: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn current(&self) -> Option<Arc<KafkaProducerGeneration>> {
        self.lock().clone()
    }

    /// Puts a generation to work, unless there is one or the process stops. Decided under the
    /// lock that [`KafkaProducer::shut_down`] takes after it announced itself, so no generation
    /// slips in behind it.
    fn install(
        &self,
        generation: &Arc<KafkaProducerGeneration>,
    ) -> Result<(), Result<ProducerGeneration, StartError>> {
        let mut current = self.lock();
        if self.is_closing() {
            return Err(Err(StartError::Closing));
        }
        if let Some(at_work) = current.as_ref() {
            return Err(Ok(at_work.id().clone()));
        }
        *current = Some(Arc::clone(generation));
        Ok(())
    }

    pub(crate) fn late(&self) -> &LateObservationQueue {
        &self.late
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<KafkaProducerGeneration>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The producer of one process.
pub struct KafkaProducer {
    shared: Arc<Shared>,
}

impl KafkaProducer {
    /// Takes a compiled configuration. Opens nothing.
    pub fn new(configuration: ProducerConfiguration, host: ProducerHost) -> Self {
        let capacity = configuration.settings.maximum_late_observations;
        Self {
            shared: Arc::new(Shared {
                late: Arc::new(LateObservationQueue::new(
                    usize::try_from(capacity).unwrap_or(usize::MAX),
                )),
                configuration,
                host,
                current: Mutex::new(None),
                readiness: watch::Sender::new(ProducerReadiness::NotStarted),
                closing: watch::Sender::new(false),
            }),
        }
    }

    /// The ports. Before [`KafkaProducer::start`] nothing is admitted.
    pub fn publisher(&self) -> KafkaPublisher {
        KafkaPublisher::new(Arc::clone(&self.shared))
    }

    /// Readiness, to be watched.
    pub fn readiness(&self) -> watch::Receiver<ProducerReadiness> {
        self.shared.readiness.subscribe()
    }

    /// What the generation at work holds, if there is one.
    pub fn usage(&self) -> Option<ProducerUsage> {
        self.shared.current().map(|generation| generation.usage())
    }

    /// Makes the first generation and attests it. After a transient error the caller may go on to
    /// [`KafkaProducer::supervise`], which tries again; any other is a fault of the deployment.
    /// A generation that is already at work stays, and its id is the answer.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(&self) -> Result<ProducerGeneration, StartError> {
        let shared = &self.shared;
        let generation = KafkaProducerGeneration::create(
            &shared.configuration,
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
                self.announce(ProducerReadiness::Ready(id.clone()));
                Ok(id)
            }
            Err(refusal) => {
                generation.close().await;
                refusal
            }
        }
    }

    /// Watches the generation and replaces it after a fault, until [`KafkaProducer::shut_down`].
    /// One task of the process runs it.
    pub async fn supervise(&self) {
        let mut closing = self.shared.closing.subscribe();
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => {}
            () = self.keep_alive() => {}
        }
    }

    async fn keep_alive(&self) {
        let settings = &self.shared.configuration.settings;
        let mut delay = settings.recovery_minimum_delay;
        loop {
            let Some(generation) = self.shared.current() else {
                self.pause(delay).await;
                delay = (delay * 2).min(settings.recovery_maximum_delay);
                if let Err(error) = self.start().await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        retry_in = ?delay,
                        "no Kafka producer generation could be started"
                    );
                    self.announce(ProducerReadiness::Recovering(error.class()));
                }
                continue;
            };
            match next_trouble(&generation).await {
                Trouble::Stopped(class) => {
                    self.retire(&generation, class).await;
                    // A generation that worked earns the next one a prompt start; one that was
                    // stopped by its first record does not.
                    if generation.has_acknowledged() {
                        delay = settings.recovery_minimum_delay;
                    }
                }
                Trouble::BrokerAway => self.find_brokers(&generation).await,
            }
        }
    }

    /// Drains, waits for the barrier, closes. Does not return after a misroute.
    async fn retire(&self, generation: &Arc<KafkaProducerGeneration>, class: FailureClass) {
        tracing::error!(
            generation = %generation.id(),
            %class,
            "the Kafka producer generation is stopped"
        );
        if class != FailureClass::DestinationMismatch {
            self.announce(ProducerReadiness::Recovering(class));
            let budget = self.shared.configuration.settings.drain_timeout;
            let report = generation.drain(budget).await;
            tracing::info!(generation = %generation.id(), ?report, "drained");
            if report.permits_out > 0 {
                self.announce(ProducerReadiness::AwaitingPermits(class));
            }
            generation.barrier().await;
            self.announce(ProducerReadiness::Recovering(class));
            generation.close().await;
        }
        // The last reports of a drain may reveal a misroute too.
        if generation.standing().borrow().stopped == Some(FailureClass::DestinationMismatch) {
            self.announce(ProducerReadiness::HaltedByMisroute);
            std::future::pending::<()>().await;
        }
        *self.shared.lock() = None;
    }

    /// Asks for a sign of life until there is one or the generation is stopped.
    async fn find_brokers(&self, generation: &Arc<KafkaProducerGeneration>) {
        let settings = &self.shared.configuration.settings;
        let mut delay = settings.recovery_minimum_delay;
        self.announce(ProducerReadiness::BrokerAway);
        loop {
            let standing = *generation.standing().borrow();
            if standing.stopped.is_some() {
                return;
            }
            if !standing.broker_away || generation.probe().await.is_ok() {
                self.announce(ProducerReadiness::Ready(generation.id().clone()));
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

    fn announce(&self, readiness: ProducerReadiness) {
        self.shared.readiness.send_if_modified(|current| {
            let changes = *current != ProducerReadiness::Closing && *current != readiness;
            if changes {
                *current = readiness;
            }
            changes
        });
    }

    /// Admits nothing any more, drains what is under way a bounded time, and closes the client.
    /// What the report counts as unresolved is `INDETERMINATE`.
    pub async fn shut_down(&self) -> DrainReport {
        self.announce(ProducerReadiness::Closing);
        self.shared.closing.send_replace(true);
        let generation = self.shared.current();
        let Some(generation) = generation else {
            return DrainReport {
                unresolved: 0,
                permits_out: 0,
            };
        };
        let budget = self.shared.configuration.settings.drain_timeout;
        let report = generation.drain(budget).await;
        generation.close().await;
        report
    }
}

enum Trouble {
    Stopped(FailureClass),
    BrokerAway,
}

async fn next_trouble(generation: &KafkaProducerGeneration) -> Trouble {
    let trouble = |standing: &Standing| match standing {
        Standing {
            stopped: Some(class),
            ..
        } => Some(Trouble::Stopped(*class)),
        Standing {
            broker_away: true, ..
        } => Some(Trouble::BrokerAway),
        _ => None,
    };
    let mut standing = generation.standing();
    loop {
        let now = *standing.borrow_and_update();
        if let Some(found) = trouble(&now) {
            return found;
        }
        // The sender lives as long as the generation.
        if standing.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
