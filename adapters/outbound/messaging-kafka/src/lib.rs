//! The acknowledged idempotent Kafka producer.
//!
//! Invariant: a record counts as acknowledged only when the broker's own report says so on the
//! compiled topic, and as rejected only when report and message status together prove that the
//! broker does not have it; everything else is `INDETERMINATE` (requirement 004 §§15–17). No type
//! of the client library crosses this crate's boundary, and the only unsafe code is in `ffi`.

mod admission;
mod attestation;
mod classify;
mod context;
mod destination;
mod ffi;
mod generation;
mod pending;
mod properties;
mod publisher;
mod read_back;
mod record;
mod settings;
mod supervisor;

pub use attestation::{AttestationError, ClientFault};

pub use destination::{
    DestinationError, DestinationSetError, KafkaDestination, KafkaDestinations, TopicAllowList,
    TopicName,
};
pub use generation::{CreateError, DrainReport};
pub use publisher::KafkaPublisher;
pub use read_back::{ReadBackError, read_back_topic};
pub use record::{KafkaRecord, RecordHeader, compile_record};
pub use settings::{
    ClusterAlias, ProducerConfiguration, ProducerSettings, SecurityProfile, SettingsError,
};
pub use supervisor::{KafkaProducer, ProducerHost, ProducerReadiness, StartError, WallClock};

/// The capability card that this crate implements (requirement 004 §10.4).
pub const PROVIDER_ID: &str = "kafka-rdkafka-acknowledged-idempotent.v1";
