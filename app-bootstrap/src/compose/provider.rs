//! The provider of either tuple, behind the core's ports.
//!
//! Invariant: one producer a process; it is stopped and drained before its resources close.

use super::compiled::{Compiled, CompiledProducer};
use super::error::ComposeError;
use super::milestones::{Milestone, Milestones};
use super::producer_view::ProducerView;
use super::security;
use crate::config::{ActiveProfile, KafkaProfile, TopicProfile};
use crate::runtime::{LogReporter, ProcessClock};
use application_core::ports::{
    LatePublicationObservationSource, OutboxMessagePublishPort, PublicationAdmissionPort,
    WallClockPort,
};
use application_core::usecase::PublishBestEffort;
use domain_core::identity::{LogicalDestinationId, ProducerGeneration};
use domain_core::instant::DatabaseInstant;
use domain_core::publication::FailureClass;
use outbound_journal::broker::{self, JournalPublisher, PublisherSettings};
use outbound_journal::{Journal, Limits};
use outbound_messaging_kafka::{
    ClusterAlias, DestinationError, KafkaDestination, KafkaDestinations, KafkaProducer,
    KafkaPublisher, MaterialSource, ProducerConfiguration, ProducerHost, ProducerSettings,
    SecurityProfile, TopicAllowList, TopicName,
};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// Late observations kept at most.
const LATE_CAPACITY: u32 = 10_000;
/// The first wait before a generation is tried again, or an absent broker looked for.
pub(super) const RECOVERY_MINIMUM_DELAY: Duration = Duration::from_secs(1);
/// The longest such wait.
pub(super) const RECOVERY_MAXIMUM_DELAY: Duration = Duration::from_secs(30);

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
        /// Watches the brokers.
        supervisor: JoinHandle<()>,
        /// Why no generation could be started, where none was.
        not_started: Option<FailureClass>,
    },
}

/// A provider with all that it needs, its secrets included; nothing is open yet.
pub struct PreparedProvider {
    producer: Prepared,
    milestones: Milestones,
}

enum Prepared {
    Journal(Box<ActiveProfile>, PathBuf),
    /// The first generation's configuration, and where those of later ones come from.
    Kafka(Box<ProducerConfiguration>, MaterialSource),
}

impl PreparedProvider {
    /// Opens it. A broker that is away for now does not fail this: nothing is claimed until it is
    /// there.
    ///
    /// # Errors
    /// [`ComposeError::Provider`].
    pub async fn open(self) -> Result<Provider, ComposeError> {
        let provider = match self.producer {
            Prepared::Journal(profile, path) => open_journal(&profile, &path),
            Prepared::Kafka(configuration, source) => open_kafka(*configuration, source).await,
        }?;
        self.milestones.reach(match &provider {
            Provider::Kafka {
                not_started: Some(_),
                ..
            } => Milestone::ProducerNotReady,
            _ => Milestone::ProducerReady,
        });
        Ok(provider)
    }
}

impl Provider {
    /// Reads the provider's secrets and judges them, before anything opens.
    ///
    /// # Errors
    /// What is wrong with a secret, without showing it.
    pub fn prepare(compiled: &Compiled) -> Result<PreparedProvider, ComposeError> {
        let producer = match &compiled.producer {
            CompiledProducer::Journal(path) => {
                Prepared::Journal(Box::new(compiled.profile.clone()), path.clone())
            }
            CompiledProducer::Kafka { settings, .. } => {
                let (profile, settings) = (compiled.profile.clone(), settings.clone());
                let configuration = material(&profile, &settings)?;
                let source: MaterialSource = Arc::new(move || {
                    material(&profile, &settings).map_err(application_core::Cause::from)
                });
                Prepared::Kafka(Box::new(configuration), source)
            }
        };
        Ok(PreparedProvider {
            producer,
            milestones: compiled.milestones.clone(),
        })
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

    /// Publication without durability for the destinations that are enabled, where the provider has it.
    /// Every outcome goes to the log as well.
    pub fn best_effort(
        &self,
        compiled: &Compiled,
        enabled: BTreeSet<LogicalDestinationId>,
    ) -> Option<PublishBestEffort> {
        let Self::Kafka { publisher, .. } = self else {
            return None;
        };
        let outbox = &compiled.profile.outbox;
        Some(PublishBestEffort {
            codec: Arc::clone(&compiled.codec),
            publisher: publisher.clone(),
            enabled: Arc::new(enabled),
            observer: Arc::new(LogReporter),
            clock: Arc::new(ProcessClock),
            budget: outbox.admission_timeout + outbox.publish_budget,
        })
    }

    /// Acknowledgements that came late.
    pub fn late_observations(&self) -> Arc<dyn LatePublicationObservationSource> {
        match self {
            Self::Journal { publisher, .. } => publisher.late_observations(),
            Self::Kafka { publisher, .. } => publisher.clone(),
        }
    }

    /// The producer whose generations are replaced, where the tuple has one, and why none of them
    /// could be started, where none was.
    pub(super) fn rotating(&self) -> Option<(&Arc<KafkaProducer>, Option<FailureClass>)> {
        match self {
            Self::Journal { .. } => None,
            Self::Kafka {
                producer,
                not_started,
                ..
            } => Some((producer, *not_started)),
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

/// What a generation is made of: settings of the profile, secrets as they are kept now.
fn material(
    profile: &ActiveProfile,
    kafka: &KafkaProfile,
) -> Result<ProducerConfiguration, ComposeError> {
    let security = security::resolve(&kafka.security, WallClock.now())?;
    kafka_configuration(profile, kafka, security)
}

async fn open_kafka(
    configuration: ProducerConfiguration,
    source: MaterialSource,
) -> Result<Provider, ComposeError> {
    let host = ProducerHost {
        clock: Arc::new(ProcessClock),
        wall_clock: Arc::new(WallClock),
        generation_ids: Arc::new(new_generation),
    };
    let producer = Arc::new(KafkaProducer::of_source(configuration, source, host));
    if let Some(expiry) = producer.earliest_expiry() {
        tracing::info!(
            epoch_seconds = expiry.epoch_micros() / 1_000_000,
            "the first pinned certificate authority expires"
        );
    }
    let not_started = match producer.start().await {
        Ok(generation) => {
            tracing::info!(%generation, "Kafka producer ready");
            None
        }
        Err(error) if error.is_transient() => {
            tracing::warn!(error = %crate::chain(&error), "ACTIVE_NOT_READY: the broker is away");
            Some(error.class())
        }
        Err(error) => return Err(provider_error(error)),
    };
    let supervised = Arc::clone(&producer);
    Ok(Provider::Kafka {
        publisher: Arc::new(producer.publisher()),
        supervisor: tokio::spawn(async move { supervised.supervise().await }),
        producer,
        not_started,
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
        drain_timeout: kafka.rotation.drain_timeout,
        recovery_minimum_delay: RECOVERY_MINIMUM_DELAY,
        recovery_maximum_delay: RECOVERY_MAXIMUM_DELAY,
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
