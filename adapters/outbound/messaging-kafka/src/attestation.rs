//! A bounded look at brokers and topics before anything is sent.
//!
//! Invariant: topics are read, never made. A generation admits nothing before every bound topic
//! was seen with its partitions, replicas, limits and cleanup policy; what may pass by itself is
//! told from what an operator must repair (requirement 004 §§13.5, 13.7).

use crate::context::Standing;
use crate::destination::{KafkaDestination, KafkaDestinations, TopicName};
use crate::ffi::may_write;
use crate::settings::ProducerConfiguration;
use domain_core::publication::FailureClass;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::{FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What the client library said, as a code; its texts may name addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("client code {} ({:?})", *.0 as i32, .0)]
pub struct ClientFault(Code);

impl From<Code> for ClientFault {
    fn from(code: Code) -> Self {
        Self(code)
    }
}

impl From<KafkaError> for ClientFault {
    fn from(error: KafkaError) -> Self {
        Self(error.rdkafka_error_code().unwrap_or(Code::Fail))
    }
}

/// Why a generation may not send yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttestationError {
    /// No broker answered in time. It may pass.
    #[error("no broker answered within {within:?}")]
    BrokerUnreachable {
        /// The bound of the look.
        within: Duration,
        /// What the client said.
        #[source]
        source: ClientFault,
    },
    /// A partition has no leader at present. It may pass.
    #[error("topic {topic}: partition {partition} has no leader at present")]
    NoLeader {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: i32,
    },
    /// The topic does not exist, or this principal may not see it.
    #[error("topic {topic} does not exist; it is not created by this process")]
    TopicMissing {
        /// The topic.
        topic: TopicName,
    },
    /// The broker refused to speak about the topic.
    #[error("the broker refused to describe topic {topic}")]
    TopicRefused {
        /// The topic.
        topic: TopicName,
        /// What it said.
        #[source]
        source: ClientFault,
    },
    /// The topic is there, but not for this principal to write to.
    #[error("this principal may not write to topic {topic}")]
    MayNotWrite {
        /// The topic.
        topic: TopicName,
    },
    /// The client cannot be used with these brokers.
    #[error("the brokers cannot be asked")]
    Refused(#[source] ClientFault),
    /// The client said meanwhile that it must not be used: a broker's certificate or this
    /// process's identity was refused, say.
    #[error("no broker could be asked: {class}")]
    Stopped {
        /// Why.
        class: FailureClass,
    },
    /// The client that asks for settings does not use what it was given.
    #[error("the administrative client does not use the value it was given for {property}")]
    NotEffective {
        /// The client's name of the property.
        property: &'static str,
    },
    /// The topic is not as its binding says.
    #[error("topic {topic}: {rule} does not hold; the broker says {actual}")]
    TopicPolicy {
        /// The topic.
        topic: TopicName,
        /// The rule, in the settings' names.
        rule: &'static str,
        /// What the broker said.
        actual: String,
    },
}

impl AttestationError {
    /// Whether waiting may help. Everything else is a fault that somebody must repair.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::BrokerUnreachable { .. } | Self::NoLeader { .. })
    }

    /// The stable class.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::BrokerUnreachable { .. } | Self::NoLeader { .. } => {
                FailureClass::BrokerUnavailable
            }
            Self::TopicMissing { .. } => FailureClass::DestinationMissing,
            Self::TopicPolicy { .. } => FailureClass::TopicPolicyMismatch,
            Self::MayNotWrite { .. } => FailureClass::Unauthorized,
            Self::Stopped { class } => *class,
            Self::NotEffective { .. } => FailureClass::ProviderFatal,
            Self::TopicRefused { source, .. } | Self::Refused(source) => match source.0 {
                Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
                    FailureClass::Unauthorized
                }
                Code::Authentication | Code::SaslAuthenticationFailed => {
                    FailureClass::AuthenticationFailed
                }
                Code::SSL => FailureClass::TlsFailed,
                _ => FailureClass::UnknownProviderFailure,
            },
        }
    }
}

/// One look, on a thread that may block.
pub(crate) struct Look {
    within: Duration,
    began: Instant,
    standing: watch::Receiver<Standing>,
}

/// The client of one look at topics' settings. Nothing of what it says is kept: the producer's own
/// connection saw the brokers before.
struct Silent;

impl ClientContext for Silent {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _line: &str) {}

    fn error(&self, _error: KafkaError, _reason: &str) {}
}

impl Look {
    /// The first slice of the time; the next ones double.
    const FIRST_SLICE: Duration = Duration::from_millis(250);

    /// Starts the time. What the generation learns meanwhile ends the look.
    pub(crate) fn new(within: Duration, standing: watch::Receiver<Standing>) -> Self {
        Self {
            within,
            began: Instant::now(),
            standing,
        }
    }

    /// Whether the client may still be used.
    pub(crate) fn permitted(&self) -> Result<(), AttestationError> {
        match self.standing.borrow().stopped {
            Some(class) => Err(AttestationError::Stopped { class }),
            None => Ok(()),
        }
    }

    /// Asks for one topic, slice by slice, because a client that no broker lets in only waits.
    fn metadata<C: ClientContext>(
        &self,
        client: &Client<C>,
        topic: &TopicName,
    ) -> Result<Metadata, AttestationError> {
        let mut slice = Self::FIRST_SLICE;
        loop {
            let began = Instant::now();
            let asked = client.fetch_metadata(Some(topic.as_str()), slice.min(self.left()));
            self.permitted()?;
            let error = match asked {
                Ok(metadata) => return Ok(metadata),
                Err(error) => self.failed(error),
            };
            // An answer, or a failure that did not wait, is the end.
            let waited = began.elapsed() >= slice;
            if !(waited && matches!(error, AttestationError::BrokerUnreachable { .. })) {
                return Err(error);
            }
            slice *= 2;
        }
    }

    fn left(&self) -> Duration {
        self.within.saturating_sub(self.began.elapsed())
    }

    fn failed(&self, error: impl Into<ClientFault>) -> AttestationError {
        let source = error.into();
        match source.0 {
            Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::TimedOutQueue
            | Code::Resolve
            | Code::LeaderNotAvailable
            | Code::BrokerNotAvailable
            | Code::NetworkException => AttestationError::BrokerUnreachable {
                within: self.within,
                source,
            },
            _ => AttestationError::Refused(source),
        }
    }

    /// Whether any broker answers.
    pub(crate) fn probe<C: ClientContext>(
        &self,
        client: &Client<C>,
        destinations: &KafkaDestinations,
    ) -> Result<(), AttestationError> {
        let Some(first) = destinations.iter().next() else {
            return Ok(());
        };
        self.metadata(client, &first.topic).map(|_| ())
    }

    /// Existence, partitions, leaders and replicas, as the producer's own connection sees them.
    pub(crate) fn topology<C: ClientContext>(
        &self,
        client: &Client<C>,
        destinations: &KafkaDestinations,
    ) -> Result<(), AttestationError> {
        for destination in destinations.iter() {
            let metadata = self.metadata(client, &destination.topic)?;
            let topic = metadata
                .topics()
                .iter()
                .find(|topic| topic.name() == destination.topic.as_str())
                .ok_or_else(|| AttestationError::TopicMissing {
                    topic: destination.topic.clone(),
                })?;
            check_topology(destination, topic)?;
        }
        Ok(())
    }

    /// Whether the producer's principal may write to each topic. Otherwise a generation would begin
    /// and be stopped by its first record, over and over.
    pub(crate) fn rights<C: ClientContext>(
        &self,
        client: &Client<C>,
        destinations: &KafkaDestinations,
    ) -> Result<(), AttestationError> {
        for destination in destinations.iter() {
            let topic = &destination.topic;
            let may = may_write(client, topic.as_str(), self.left());
            self.permitted()?;
            // A broker too old to say so refuses the first record.
            if may.map_err(|code| self.failed(code))? == Some(false) {
                return Err(AttestationError::MayNotWrite {
                    topic: topic.clone(),
                });
            }
        }
        Ok(())
    }

    /// The topics' settings, asked by a short-lived administrative client.
    pub(crate) fn policies(
        &self,
        configuration: &ProducerConfiguration,
        runtime: &tokio::runtime::Handle,
    ) -> Result<(), AttestationError> {
        let admin: AdminClient<Silent> =
            AdminClient::from_config_and_context(&configuration.admin_config(), Silent)
                .map_err(|error| self.failed(error))?;
        configuration
            .assert_effective_admin(admin.inner())
            .map_err(|different| AttestationError::NotEffective {
                property: different.name,
            })?;
        let left = self.left().max(Duration::from_millis(1));
        let options = AdminOptions::new()
            .request_timeout(Some(left))
            .operation_timeout(Some(left));
        for destination in configuration.destinations().iter() {
            let topic = [ResourceSpecifier::Topic(destination.topic.as_str())];
            let described = runtime
                .block_on(admin.describe_configs(&topic, &options))
                .map_err(|error| self.failed(error))?;
            for resource in described {
                let resource = resource.map_err(|code| AttestationError::TopicRefused {
                    topic: destination.topic.clone(),
                    source: ClientFault(code),
                })?;
                check_policy(destination, &resource)?;
            }
        }
        Ok(())
    }
}

fn check_topology(
    destination: &KafkaDestination,
    topic: &MetadataTopic,
) -> Result<(), AttestationError> {
    let name = || destination.topic.clone();
    if let Some(error) = topic.error() {
        return Err(match Code::from(error) {
            Code::UnknownTopicOrPartition | Code::UnknownTopic => {
                AttestationError::TopicMissing { topic: name() }
            }
            Code::LeaderNotAvailable => AttestationError::NoLeader {
                topic: name(),
                partition: 0,
            },
            code => AttestationError::TopicRefused {
                topic: name(),
                source: ClientFault(code),
            },
        });
    }
    let partitions = topic.partitions();
    if u32::try_from(partitions.len()) != Ok(destination.expected_partitions) {
        return Err(AttestationError::TopicPolicy {
            topic: name(),
            rule: "partitions = expected-partitions",
            actual: partitions.len().to_string(),
        });
    }
    for partition in partitions {
        if partition.leader() < 0 {
            return Err(AttestationError::NoLeader {
                topic: name(),
                partition: partition.id(),
            });
        }
        let replicas = partition.replicas().len();
        if replicas < usize::try_from(destination.minimum_replication_factor).unwrap_or(usize::MAX)
        {
            return Err(AttestationError::TopicPolicy {
                topic: name(),
                rule: "replicas >= minimum-replication-factor",
                actual: replicas.to_string(),
            });
        }
    }
    Ok(())
}

fn check_policy(
    destination: &KafkaDestination,
    resource: &ConfigResource,
) -> Result<(), AttestationError> {
    let value = |name| {
        resource
            .get(name)
            .and_then(|entry| entry.value.clone())
            .unwrap_or_else(|| "nothing".to_owned())
    };
    let at_least = |text: &str, least: u32| {
        text.parse::<u64>()
            .is_ok_and(|number| number >= u64::from(least))
    };
    let bytes = value("max.message.bytes");
    let in_sync = value("min.insync.replicas");
    let time = value("message.timestamp.type");
    let cleanup = value("cleanup.policy");
    for (holds, rule, actual) in [
        (
            at_least(&bytes, destination.topic_maximum_bytes),
            "max.message.bytes >= topic-maximum-bytes",
            bytes,
        ),
        (
            at_least(&in_sync, destination.minimum_in_sync_replicas),
            "min.insync.replicas >= minimum-in-sync-replicas",
            in_sync,
        ),
        // Otherwise the broker would replace the time at which the event happened.
        (
            time == "CreateTime",
            "message.timestamp.type = CreateTime",
            time,
        ),
        // A compacted topic loses an aggregate's earlier events after they were acknowledged,
        // since they share its key.
        (cleanup == "delete", "cleanup.policy = delete", cleanup),
    ] {
        if !holds {
            return Err(AttestationError::TopicPolicy {
                topic: destination.topic.clone(),
                rule,
                actual,
            });
        }
    }
    // How long consumers have is theirs and the operator's to judge.
    tracing::info!(
        topic = %destination.topic,
        retention_ms = value("retention.ms"),
        retention_bytes = value("retention.bytes"),
        "topic as its binding says"
    );
    Ok(())
}
