//! The acknowledged idempotent Kafka producer.
//!
//! Invariant: a record counts as acknowledged only when the broker's own report says so on the
//! compiled topic, and as rejected only when report and message status together prove that the
//! broker does not have it; everything else is `INDETERMINATE` (requirement 004 §§15–17). No type
//! of the client library crosses this crate's boundary, and the only unsafe code is in `ffi`.
//!
//! # What is attested of a topic, and what is not
//!
//! Before a generation admits anything it sees each bound topic's existence, partitions, leaders,
//! replicas, `max.message.bytes`, `min.insync.replicas`, `message.timestamp.type` (`CreateTime`) and
//! `cleanup.policy` (exactly `delete`: under compaction an aggregate's earlier events vanish after
//! they were acknowledged). Retention is not attested: `retention.ms` and `retention.bytes` are
//! reported in the log, and whether consumers read in time is the operator's to judge.
//!
//! It also sees that its own principal may write to each of them.
//!
//! # Who is at fault
//!
//! A broker's certificate that is refused, a refused identity and a missing right stop the
//! generation; whatever else failed meanwhile is put down to the provider too, and the next
//! generation begins by itself once the fault is repaired. One broker of several is enough to stop
//! all: some partition has its leader there.
//!
//! # A limit of `REJECTED`
//!
//! The client retries some answers out of this crate's sight. A record that timed out or was purged is
//! `INDETERMINATE` for that reason, whatever the client says about it. A refusal of the record or of the
//! principal is taken from the broker's last answer: should an earlier try, unseen, have been stored by
//! a leader that then resigned, the record counts as rejected although a broker has it.

mod admission;
mod attestation;
mod classify;
mod context;
mod destination;
mod ffi;
mod generation;
mod lifecycle;
mod memory;
mod pending;
mod properties;
mod publisher;
mod read_back;
mod record;
mod room;
mod security;
mod settings;
mod supervisor;

pub use attestation::{AttestationError, ClientFault};

pub use destination::{
    DestinationError, DestinationSetError, KafkaDestination, KafkaDestinations, TopicAllowList,
    TopicName,
};
pub use generation::{CreateError, DrainReport, ProducerUsage};
pub use memory::MemoryBound;
pub use publisher::KafkaPublisher;
pub use read_back::{ReadBackError, ReadBackRecord, read_back_topic};
pub use record::{KafkaRecord, RecordHeader, compile_record};
pub use security::{
    AuthoritiesError, CredentialsError, PinnedAuthorities, ScramCredentials, SecurityProfile,
};
pub use settings::{ClusterAlias, ProducerConfiguration, ProducerSettings, SettingsError};
pub use supervisor::{KafkaProducer, MaterialSource, ProducerHost, ProducerReadiness, StartError};

/// The client library that is linked, as it names its own version.
pub fn client_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}

/// The capability card that this crate implements (requirement 004 §10.4).
pub const PROVIDER_ID: &str = "kafka-rdkafka-acknowledged-idempotent.v1";
