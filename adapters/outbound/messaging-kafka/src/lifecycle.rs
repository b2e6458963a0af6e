//! The primitives of a rotation, on this process's generations.
//!
//! Invariant: callers reach the generation at work and no other. It leaves before its client is closed;
//! the next takes its place only when it is closed and every permit of it is back. Nothing here decides
//! what becomes of a delivery (requirement 004 §§16.1, 16.10).

use crate::generation::{DrainReport, KafkaProducerGeneration};
use crate::settings::ProducerConfiguration;
use crate::supervisor::{KafkaProducer, ProducerReadiness, StartError};
use application_core::Cause;
use application_core::ports::{
    DrainFact, LifecycleError, PausedGeneration, ProducerLifecyclePort, ProducerMaterialPort,
};
use application_core::rotation::Material;
use domain_core::identity::ProducerGeneration;
use domain_core::publication::FailureClass;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl From<StartError> for LifecycleError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Closing => Self::ProcessStops,
            error => Self::Failed {
                class: error.class(),
                source: error.into(),
            },
        }
    }
}

impl From<DrainReport> for DrainFact {
    fn from(report: DrainReport) -> Self {
        Self {
            unresolved: report.unresolved,
            permits_out: report.permits_out,
        }
    }
}

fn failed(class: FailureClass, source: impl Into<Cause>) -> LifecycleError {
    LifecycleError::Failed {
        class,
        source: source.into(),
    }
}

impl KafkaProducer {
    fn goes_on(&self) -> Result<(), LifecycleError> {
        if self.shared.is_closing() {
            return Err(LifecycleError::ProcessStops);
        }
        Ok(())
    }

    /// The generation that is being replaced, unless it revealed a misroute.
    fn retiring(&self) -> Result<Option<Arc<KafkaProducerGeneration>>, LifecycleError> {
        self.goes_on()?;
        let retiring = self.shared.lock().retiring.clone();
        let misrouted = retiring.as_ref().is_some_and(|generation| {
            generation.standing().borrow().stopped == Some(FailureClass::DestinationMismatch)
        });
        if misrouted {
            self.shared.announce(ProducerReadiness::HaltedByMisroute);
            return Err(LifecycleError::Misrouted);
        }
        Ok(retiring)
    }

    /// What the next generation is to be made of.
    fn material(&self, material: Material) -> ProducerConfiguration {
        let resolved = match material {
            Material::New => self.shared.lock().resolved.clone(),
            Material::Previous => None,
        };
        resolved.unwrap_or_else(|| self.shared.configuration())
    }

    /// Permits that are out stand before whatever else is wrong: they need somebody's act.
    fn announce_failure(&self, class: FailureClass) {
        let waits = self.shared.lock().retiring.as_ref().and_then(|generation| {
            let stopped = generation.stopped_by();
            (generation.usage().permits > 0).then(|| stopped.unwrap_or(class))
        });
        self.shared.announce(match waits {
            Some(class) => ProducerReadiness::AwaitingPermits(class),
            None => ProducerReadiness::Recovering(class),
        });
    }
}

#[async_trait::async_trait]
impl ProducerMaterialPort for KafkaProducer {
    async fn resolve(&self) -> Result<(), LifecycleError> {
        self.goes_on()?;
        match (self.shared.source)() {
            Ok(configuration) => {
                self.shared.lock().resolved = Some(configuration);
                Ok(())
            }
            Err(source) => {
                tracing::warn!(
                    error = source.as_ref(),
                    "the producer's material cannot be read"
                );
                Err(failed(FailureClass::AuthenticationFailed, source))
            }
        }
    }
}

#[async_trait::async_trait]
impl ProducerLifecyclePort for KafkaProducer {
    async fn pause(&self) -> Result<PausedGeneration, LifecycleError> {
        self.goes_on()?;
        let generation = {
            let mut generations = self.shared.lock();
            if generations.current.is_some() {
                generations.retiring = generations.current.clone();
            }
            generations.current.clone()
        };
        let Some(generation) = generation else {
            return Ok(PausedGeneration::default());
        };
        generation.pause();
        let stopped = generation.stopped_by();
        self.retiring()?;
        self.shared.announce(match stopped {
            Some(class) => ProducerReadiness::Recovering(class),
            None => ProducerReadiness::Rotating,
        });
        Ok(PausedGeneration {
            generation: Some(generation.id().clone()),
            had_acknowledged: generation.has_acknowledged(),
        })
    }

    async fn drain(&self, limit: Duration) -> Result<DrainFact, LifecycleError> {
        let Some(generation) = self.retiring()? else {
            return Ok(DrainFact::default());
        };
        let report = generation.drain(limit).await;
        tracing::info!(generation = %generation.id(), ?report, "drained");
        let stopped = generation.stopped_by();
        // The last reports of a drain may reveal a misroute.
        self.retiring()?;
        if report.permits_out > 0
            && let Some(class) = stopped
        {
            self.shared
                .announce(ProducerReadiness::AwaitingPermits(class));
        }
        Ok(report.into())
    }

    async fn abandon(&self, limit: Duration) -> Result<DrainFact, LifecycleError> {
        let Some(generation) = self.retiring()? else {
            return Ok(DrainFact::default());
        };
        let report = generation.abandon(limit).await;
        self.retiring()?;
        Ok(report.into())
    }

    async fn close(&self, limit: Duration) -> Result<bool, LifecycleError> {
        let Some(generation) = self.retiring()? else {
            return Ok(true);
        };
        self.shared.lock().current = None;
        let closed = generation.close_within(limit).await;
        self.retiring()?;
        Ok(closed)
    }

    async fn create(&self, material: Material) -> Result<ProducerGeneration, LifecycleError> {
        self.goes_on()?;
        let configuration = self.material(material);
        let created = KafkaProducerGeneration::create(
            &configuration,
            &self.shared.host,
            Arc::clone(&self.shared.late),
        );
        let generation = match created {
            Ok(generation) => generation,
            Err(error) => {
                let error = StartError::from(error);
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "no Kafka producer generation could be made"
                );
                self.announce_failure(error.class());
                return Err(error.into());
            }
        };
        let id = generation.id().clone();
        let replaced = {
            let mut generations = self.shared.lock();
            generations.candidate.replace((generation, configuration))
        };
        if let Some((earlier, _)) = replaced {
            earlier.close().await;
        }
        Ok(id)
    }

    async fn attest(&self) -> Result<(), LifecycleError> {
        self.goes_on()?;
        let candidate = self.shared.lock().candidate.clone();
        let Some((generation, _)) = candidate else {
            return Err(failed(
                FailureClass::ClientClosed,
                "there is no generation to attest",
            ));
        };
        let Err(error) = generation.attest().await else {
            return Ok(());
        };
        let error = StartError::from(error);
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a Kafka producer generation could not be attested"
        );
        self.announce_failure(error.class());
        self.shared.lock().candidate = None;
        generation.close().await;
        Err(error.into())
    }

    async fn resume(&self) -> Result<ProducerGeneration, LifecycleError> {
        let id = {
            let mut generations = self.shared.lock();
            self.goes_on()?;
            let permits_out = generations
                .retiring
                .as_ref()
                .map_or(0, |generation| generation.usage().permits);
            if permits_out > 0 || generations.current.is_some() {
                return Err(failed(
                    FailureClass::ClientClosed,
                    "a generation before is not at its end",
                ));
            }
            let Some((generation, configuration)) = generations.candidate.take() else {
                return Err(failed(
                    FailureClass::ClientClosed,
                    "there is no generation to put to work",
                ));
            };
            let id = generation.id().clone();
            generations.retiring = None;
            generations.resolved = None;
            generations.current = Some(generation);
            let kept = self.shared.configuration.lock();
            *kept.unwrap_or_else(PoisonError::into_inner) = configuration;
            id
        };
        self.shared.count_installed();
        self.shared.announce(ProducerReadiness::Ready(id.clone()));
        tracing::info!(generation = %id, "Kafka producer ready");
        Ok(id)
    }
}
