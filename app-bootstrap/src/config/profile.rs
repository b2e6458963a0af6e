//! The compiled profile: what the rest of the process is given.
//!
//! Invariant: every value here passed its check; there is no default that a profile did not state.

use super::cards::Tuple;
use super::registry::Promotion;
use super::secret::SecretReference;
use application_core::contract::ContractKey;
use application_core::ports::ReapRequest;
use domain_core::capacity::BacklogQuota;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{
    DestinationBindingRevision, LogicalDestinationId, TransactionResourceId,
};
use domain_core::publication::RetryPolicy;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Where a deployment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// Nothing that is not promoted runs here.
    Production,
    /// Tuples that are not promoted may run.
    Development,
}

/// A compiled profile.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The file it came from.
    pub file: PathBuf,
    /// Where it runs.
    pub environment: Environment,
    /// What it runs.
    pub state: ExpectedState,
}

/// Whether anything runs at all.
#[derive(Debug, Clone)]
pub enum ExpectedState {
    /// No connection, thread, timer or file.
    Disabled,
    /// One exact tuple.
    Active(Box<ActiveProfile>),
}

/// Everything an active process needs.
#[derive(Debug, Clone)]
pub struct ActiveProfile {
    /// The file it came from.
    pub file: PathBuf,
    /// Where it runs.
    pub environment: Environment,
    /// The exact tuple.
    pub tuple: Tuple,
    /// What it may say of itself.
    pub promotion: Promotion,
    /// One digest over every setting but secrets, addresses and paths.
    pub settings_digest: Sha256Digest,
    /// Contract manifests, by path.
    pub manifests: Vec<PathBuf>,
    /// The lock that pins them.
    pub lock_file: PathBuf,
    /// Tighter bounds for single contracts.
    pub overrides: Vec<ContractBounds>,
    /// Outbox and relay.
    pub outbox: OutboxProfile,
    /// The database.
    pub store: StoreProfile,
    /// The broker.
    pub provider: ProviderProfile,
    /// Where a running process serves its descriptor.
    pub descriptor_socket: PathBuf,
    /// Where destinations lead.
    pub destinations: Vec<DestinationProfile>,
}

/// A deployment's tighter bounds for one contract version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractBounds {
    /// Which version.
    pub contract: ContractKey,
    /// Bytes of payload.
    pub maximum_payload_bytes: Option<u32>,
    /// Bytes of envelope.
    pub maximum_envelope_bytes: Option<u32>,
}

/// Outbox and relay.
#[derive(Debug, Clone)]
pub struct OutboxProfile {
    /// The store's own id that this profile insists on.
    pub transaction_resource_id: Option<TransactionResourceId>,
    /// The polling card, stored with each delivery.
    pub polling_card: &'static str,
    /// Lease of a claim.
    pub claim_lease: Duration,
    /// How long a generation is published automatically.
    pub maximum_automatic_publication_age: Duration,
    /// Attempts and backoff.
    pub retry: RetryPolicy,
    /// Pause after an idle turn.
    pub poll_interval: Duration,
    /// What one attempt may take.
    pub attempt_budget: Duration,
    /// What the publication may take of it.
    pub publish_budget: Duration,
    /// How long to wait for a permit.
    pub admission_timeout: Duration,
    /// Records under way at once; with the per-record cards, relay workers as well.
    pub maximum_admitted_records: u32,
    /// The window claim card's bounds, where the tuple has that card.
    pub window: Option<WindowProfile>,
    /// When readiness says that the outbox is too full; `None` measures nothing.
    pub capacity: Option<CapacityProfile>,
    /// What is removed; `None` removes nothing.
    pub retention: Option<RetentionProfile>,
}

/// The window claim card's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowProfile {
    /// Workers, each with a share of the scopes.
    pub workers: u32,
    /// Records that one worker has under way at once.
    pub records: NonZeroU32,
    /// What claiming and handing a whole window to the client may take.
    pub enqueue_budget: Duration,
}

/// When the outbox counts as too full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacityProfile {
    /// The bounds.
    pub quota: BacklogQuota,
    /// How often the store is asked.
    pub sample_interval: Duration,
}

/// What is removed, and how much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionProfile {
    /// One batch.
    pub request: ReapRequest,
    /// The pause after a pass.
    pub interval: Duration,
}

/// The database.
#[derive(Debug, Clone)]
pub enum StoreProfile {
    /// One file.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// A server.
    Postgres {
        /// Where its URL is kept.
        url: SecretReference,
        /// Connections of the pool.
        maximum_connections: u32,
    },
}

/// The broker.
#[derive(Debug, Clone)]
pub enum ProviderProfile {
    /// The embedded journal.
    Journal(JournalProfile),
    /// A Kafka cluster.
    Kafka(KafkaProfile),
}

/// The embedded journal.
#[derive(Debug, Clone)]
pub struct JournalProfile {
    /// The file.
    pub path: PathBuf,
}

/// A Kafka cluster.
#[derive(Debug, Clone)]
pub struct KafkaProfile {
    /// The deployment's name for the cluster.
    pub cluster_id: String,
    /// `host:port` each.
    pub bootstrap_servers: Vec<String>,
    /// How the brokers are spoken to.
    pub security: KafkaSecurity,
    /// Patterns of topic names that a destination may be bound to.
    pub topic_allow_list: Vec<String>,
    /// `delivery.timeout.ms`.
    pub delivery_timeout: Duration,
    /// `request.timeout.ms`.
    pub request_timeout: Duration,
    /// Bounded wait for buffer space.
    pub max_block_timeout: Duration,
    /// `linger.ms`.
    pub linger: Duration,
    /// Bytes of the client's buffer.
    pub buffer_memory_bytes: u32,
    /// Bytes of one request.
    pub maximum_request_bytes: u32,
    /// How a generation is replaced.
    pub rotation: RotationProfile,
}

/// How a producer generation is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationProfile {
    /// How often referenced secrets are looked at; `None` looks at none.
    pub secret_poll_interval: Option<Duration>,
    /// How long attempts under way may end by themselves.
    pub drain_timeout: Duration,
    /// How long after the first failure of new material a generation of the previous one may go on.
    pub previous_material_limit: Duration,
}

impl RotationProfile {
    /// What holds for a profile that says nothing about it.
    pub const UNSTATED: Self = Self {
        secret_poll_interval: None,
        drain_timeout: Duration::from_secs(10),
        previous_material_limit: Duration::from_secs(5 * 60),
    };
}

impl KafkaProfile {
    /// The secrets that the producer is made of, to be watched.
    pub fn secret_references(&self) -> Vec<SecretReference> {
        match &self.security {
            KafkaSecurity::LocalPlaintext => Vec::new(),
            KafkaSecurity::SaslSslScramSha512 {
                username,
                password,
                ca,
            } => vec![username.clone(), password.clone(), ca.clone()],
        }
    }
}

/// How Kafka brokers are spoken to. Secrets are references here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KafkaSecurity {
    /// `local-plaintext.v1`.
    LocalPlaintext,
    /// `kafka-sasl-ssl-scram-sha-512.v1`.
    SaslSslScramSha512 {
        /// The user's name.
        username: SecretReference,
        /// The user's password.
        password: SecretReference,
        /// Certificate authorities in PEM; no others count.
        ca: SecretReference,
    },
}

/// One binding revision of one destination.
#[derive(Debug, Clone)]
pub struct DestinationProfile {
    /// The destination.
    pub destination: LogicalDestinationId,
    /// The revision.
    pub revision: DestinationBindingRevision,
    /// Whether appends take it.
    pub current: bool,
    /// The physical side, where the provider has topics.
    pub topic: Option<TopicProfile>,
    /// Bytes of one record.
    pub maximum_record_bytes: u32,
    /// Bytes of one envelope.
    pub maximum_envelope_bytes: u32,
}

/// A topic and what it must be like.
#[derive(Clone)]
pub struct TopicProfile {
    /// Its name.
    pub name: String,
    /// Whether the name is shown by an alias.
    pub sensitive: bool,
    /// Partitions it must have.
    pub expected_partitions: u32,
    /// Replicas it must have at least.
    pub minimum_replication_factor: u32,
    /// Its least `min.insync.replicas`.
    pub minimum_in_sync_replicas: u32,
    /// Its `max.message.bytes`.
    pub maximum_bytes: u32,
}

impl std::fmt::Debug for TopicProfile {
    /// Without the name of a sensitive topic.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if self.sensitive {
            "(sensitive)"
        } else {
            &self.name
        };
        f.debug_struct("TopicProfile")
            .field("name", &name)
            .finish_non_exhaustive()
    }
}
