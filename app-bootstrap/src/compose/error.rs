//! Why a profile could not be composed.
//!
//! Invariant: each case names the part that failed; its source says why.

use super::resource::ResourceMismatch;
use crate::config::SecretError;
use application_core::contract::{BindingSetError, ContractKey};
use outbound_contract_json::{BindError, CompileError, LockError, ManifestError};
use outbound_messaging_kafka::{AuthoritiesError, CredentialsError};
use std::path::PathBuf;

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
    /// A secret of the Kafka client cannot be resolved.
    #[error("app.messaging.kafka.security.{key} cannot be resolved")]
    KafkaSecret {
        /// Which one.
        key: &'static str,
        /// Why.
        #[source]
        source: SecretError,
    },
    /// The user of the Kafka client cannot be one.
    #[error("app.messaging.kafka.security cannot be used")]
    KafkaCredentials(#[source] CredentialsError),
    /// The certificate authorities of the Kafka client cannot be used.
    #[error("app.messaging.kafka.security.ca cannot be used")]
    KafkaAuthorities(#[source] AuthoritiesError),
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[source] application_core::Cause),
    /// The stores are not one.
    #[error("business, append and relay do not share one store")]
    Resource(#[source] ResourceMismatch),
    /// The producer's settings contradict each other or a bound.
    #[error("{}: app.messaging.kafka or app.messaging.destinations", file.display())]
    ProducerSettings {
        /// The profile.
        file: PathBuf,
        /// Which setting or inequality.
        #[source]
        source: application_core::Cause,
    },
    /// More may be under way than the client can buffer.
    #[error(
        "{}: app.messaging.kafka.producer.buffer-memory-bytes is {buffer}, but \
         maximum-admitted-records {records} * {record_bytes} bytes of the largest record is more",
        file.display()
    )]
    PermitBytes {
        /// The profile.
        file: PathBuf,
        /// Bytes that the client may buffer.
        buffer: u32,
        /// Records under way at once.
        records: u32,
        /// Bytes of the largest record that any contract allows, key and headers included.
        record_bytes: u32,
    },
    /// The provider cannot be opened.
    #[error("the provider cannot be opened")]
    Provider(#[source] application_core::Cause),
}
