//! The provider of either tuple, behind the core's ports.
//!
//! Invariant: one producer a process; it is stopped and drained before its resources close.

use super::compiled::{Compiled, CompiledProducer};
use super::error::ComposeError;
use super::producer_view::ProducerView;
use super::security;
use crate::config::{ActiveProfile, KafkaProfile, TopicProfile};
use crate::runtime::ProcessClock;
use application_core::ports::{
    LatePublicationObservationSource, OutboxMessagePublishPort, PublicationAdmissionPort,
    WallClockPort,
};
use domain_core::identity::ProducerGeneration;
use domain_core::instant::DatabaseInstant;
use outbound_journal::broker::{self, JournalPublisher, PublisherSettings};
use outbound_journal::{Journal, Limits};
use outbound_messaging_kafka::{
    ClusterAlias, DestinationError, KafkaDestination, KafkaDestinations, KafkaProducer,
    KafkaPublisher, ProducerConfiguration, ProducerHost, ProducerSettings, SecurityProfile,
    TopicAllowList, TopicName,
};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// Late observations kept at most.
const LATE_CAPACITY: u32 = 10_000;

/// The producer of this process, open.
pub enum Provider {
    /// The embedded journal.
    Journal {
        /// The file.
        journal: Arc<Journal>,
        /// Its publisher.
        publisher: Arc<JournalPublisher>,
        /// The one generation of this process.
        generation: ProducerGeneration,
    },
    /// A Kafka cluster.
    Kafka {
        /// The supervised producer.
        producer: Arc<KafkaProducer>,
        /// Its ports.
        publisher: Arc<KafkaPublisher>,
        /// Replaces generations.
        supervisor: JoinHandle<()>,
    },
}

/// A provider with all that it needs, its secrets included; nothing is open yet.
pub struct PreparedProvider(Prepared);

enum Prepared {
    Journal(Box<ActiveProfile>, PathBuf),
    Kafka(Box<ProducerConfiguration>),
}

impl PreparedProvider {
    /// Opens it. A broker that is away for now does not fail this: nothing is claimed until it is
    /// there.
    ///
    /// # Errors
    /// [`ComposeError::Provider`].
    pub async fn open(self) -> Result<Provider, ComposeError> {
        match self.0 {
            Prepared::Journal(profile, path) => open_journal(&profile, &path),
            Prepared::Kafka(configuration) => open_kafka(*configuration).await,
        }
    }
}

impl Provider {
    /// Reads the provider's secrets and judges them, before anything opens.
    ///
    /// # Errors
    /// What is wrong with a secret, without showing it.
    pub fn prepare(compiled: &Compiled) -> Result<PreparedProvider, ComposeError> {
        let prepared = match &compiled.producer {
            CompiledProducer::Journal(path) => {
                Prepared::Journal(Box::new(compiled.profile.clone()), path.clone())
            }
            CompiledProducer::Kafka(kafka) => {
                let security = security::resolve(&kafka.security, WallClock.now())?;
                let configuration = kafka_configuration(&compiled.profile, kafka, security)?;
                Prepared::Kafka(Box::new(configuration))
            }
        };
        Ok(PreparedProvider(prepared))
    }

    /// Permits.
    pub fn admission(&self) -> Arc<dyn PublicationAdmissionPort> {
        match self {
            Self::Journal { publisher, .. } => publisher.clone(),
            Self::Kafka { publisher, .. } => publisher.clone(),
        }
    }

    /// Sends.
    pub fn publisher(&self) -> Arc<dyn OutboxMessagePublishPort> {
        match self {
            Self::Journal { publisher, .. } => publisher.clone(),
            Self::Kafka { publisher, .. } => publisher.clone(),
        }
    }

    /// Acknowledgements that came late.
    pub fn late_observations(&self) -> Arc<dyn LatePublicationObservationSource> {
        match self {
            Self::Journal { publisher, .. } => publisher.late_observations(),
            Self::Kafka { publisher, .. } => publisher.clone(),
        }
    }

    /// How the producer stands, to be asked at any time.
    pub fn view(&self) -> ProducerView {
        match self {
            Self::Journal {
                journal,
                generation,
                ..
            } => ProducerView::Journal {
                journal: Arc::downgrade(journal),
                generation: generation.clone(),
            },
            Self::Kafka { producer, .. } => ProducerView::Kafka(producer.readiness()),
        }
    }

    /// The journal, where the tuple has one.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        match self {
            Self::Journal { journal, .. } => Some(journal),
            Self::Kafka { .. } => None,
        }
    }

    /// Admits nothing any more, drains within its bound, and closes.
    pub async fn close(self) {
        match self {
            Self::Journal {
                journal, publisher, ..
            } => {
                publisher.stop_admission();
                journal.close();
            }
            Self::Kafka {
                producer,
                supervisor,
                ..
            } => {
                let report = producer.shut_down().await;
                if report.unresolved > 0 {
                    tracing::warn!(
                        unresolved = report.unresolved,
                        "records without an answer at shutdown; their leases will lapse"
                    );
                }
                // It returns once the producer is closing; a panic was logged by the hook.
                let _ = supervisor.await;
            }
        }
    }
}

fn provider_error(error: impl std::error::Error + Send + Sync + 'static) -> ComposeError {
    ComposeError::Provider(Box::new(error))
}

fn new_generation() -> ProducerGeneration {
    ProducerGeneration::parse(uuid::Uuid::now_v7().to_string())
        .expect("a UUID's text is within the grammar")
}

/// The machine's wall clock.
struct WallClock;

impl WallClockPort for WallClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock, to stamp acknowledgements"
    )]
    fn now(&self) -> DatabaseInstant {
        let micros = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
            });
        DatabaseInstant::from_epoch_micros(micros)
    }
}

fn open_journal(profile: &ActiveProfile, path: &Path) -> Result<Provider, ComposeError> {
    let journal = Arc::new(broker::open(path, Limits::default()).map_err(provider_error)?);
    let generation = new_generation();
    let permits = usize::try_from(profile.outbox.maximum_admitted_records).unwrap_or(usize::MAX);
    let publisher = JournalPublisher::new(
        Arc::clone(&journal),
        PublisherSettings {
            generation: generation.clone(),
            permits: NonZeroUsize::new(permits).unwrap_or(NonZeroUsize::MIN),
            admission_wait: profile.outbox.admission_timeout,
            late_capacity: NonZeroUsize::new(LATE_CAPACITY as usize).unwrap_or(NonZeroUsize::MIN),
        },
        Arc::new(ProcessClock),
        Arc::new(WallClock),
    );
    Ok(Provider::Journal {
        journal,
        publisher: Arc::new(publisher),
        generation,
    })
}

async fn open_kafka(configuration: ProducerConfiguration) -> Result<Provider, ComposeError> {
    let host = ProducerHost {
        clock: Arc::new(ProcessClock),
        wall_clock: Arc::new(WallClock),
        generation_ids: Arc::new(new_generation),
    };
    let producer = Arc::new(KafkaProducer::new(configuration, host));
    if let Some(expiry) = producer.earliest_expiry() {
        tracing::info!(
            epoch_seconds = expiry.epoch_micros() / 1_000_000,
            "the first pinned certificate authority expires"
        );
    }
    match producer.start().await {
        Ok(generation) => tracing::info!(%generation, "Kafka producer ready"),
        Err(error) if error.is_transient() => {
            tracing::warn!(error = %crate::chain(&error), "ACTIVE_NOT_READY: the broker is away");
        }
        Err(error) => return Err(provider_error(error)),
    }
    let supervised = Arc::clone(&producer);
    Ok(Provider::Kafka {
        publisher: Arc::new(producer.publisher()),
        supervisor: tokio::spawn(async move { supervised.supervise().await }),
        producer,
    })
}

/// A topic's name, shown by an alias where the profile says so.
pub(crate) fn topic_name(topic: &TopicProfile) -> Result<TopicName, DestinationError> {
    let name = TopicName::parse(&topic.name)?;
    Ok(if topic.sensitive {
        name.sensitive()
    } else {
        name
    })
}

/// The client's settings. What no profile decides yet is fixed here.
pub(super) fn kafka_configuration(
    profile: &ActiveProfile,
    kafka: &KafkaProfile,
    security: SecurityProfile,
) -> Result<ProducerConfiguration, ComposeError> {
    let refuse = |source: application_core::Cause| ComposeError::ProducerSettings {
        file: profile.file.clone(),
        source,
    };
    let allowed = TopicAllowList::parse(kafka.topic_allow_list.iter().map(String::as_str))
        .map_err(|error| refuse(error.into()))?;
    let mut destinations = Vec::new();
    for binding in &profile.destinations {
        let Some(topic) = &binding.topic else {
            continue;
        };
        destinations.push(KafkaDestination {
            destination: binding.destination.clone(),
            binding_revision: binding.revision.clone(),
            topic: topic_name(topic).map_err(|error| refuse(error.into()))?,
            expected_partitions: topic.expected_partitions,
            minimum_replication_factor: topic.minimum_replication_factor,
            minimum_in_sync_replicas: topic.minimum_in_sync_replicas,
            maximum_record_bytes: binding.maximum_record_bytes,
            maximum_envelope_bytes: binding.maximum_envelope_bytes,
            topic_maximum_bytes: topic.maximum_bytes,
        });
    }
    let destinations =
        KafkaDestinations::build(destinations, &allowed).map_err(|error| refuse(error.into()))?;
    ProducerSettings {
        cluster: ClusterAlias::parse(&kafka.cluster_id).map_err(|error| refuse(error.into()))?,
        bootstrap_servers: kafka.bootstrap_servers.clone(),
        security,
        admission_timeout: profile.outbox.admission_timeout,
        delivery_timeout: kafka.delivery_timeout,
        request_timeout: kafka.request_timeout,
        max_block_timeout: kafka.max_block_timeout,
        linger: kafka.linger,
        attestation_timeout: Duration::from_secs(10),
        drain_timeout: Duration::from_secs(10),
        recovery_minimum_delay: Duration::from_secs(1),
        recovery_maximum_delay: Duration::from_secs(30),
        buffer_memory_bytes: kafka.buffer_memory_bytes,
        maximum_request_bytes: kafka.maximum_request_bytes,
        batch_bytes: 65_536,
        maximum_admitted_records: profile.outbox.maximum_admitted_records,
        maximum_buffered_records: profile.outbox.maximum_admitted_records * 4,
        maximum_late_observations: LATE_CAPACITY,
    }
    .compile(destinations)
    .map_err(|error| refuse(error.into()))
}
