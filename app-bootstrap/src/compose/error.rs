//! Why a profile could not be composed.
//!
//! Invariant: each case names the part that failed, with its stable code; its source says why.

use super::resource::ResourceMismatch;
use crate::config::{SecretError, StartCode};
use application_core::contract::{BindingSetError, CatalogError, ContractKey};
use application_core::ports::AuthorityError;
use outbound_contract_json::{BindError, CompileError, LockError, ManifestError, SchemaError};
use outbound_messaging_kafka::{
    AuthoritiesError, CredentialsError, DestinationSetError, SettingsError,
};
use std::path::PathBuf;
use std::time::Duration;

/// Why a profile could not be composed.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// No contract is named.
    #[error(
        "contracts.manifests is empty while expected-state is ACTIVE [{}]",
        StartCode::ContractsEmpty
    )]
    NoContract,
    /// A manifest cannot be used.
    #[error("a contract manifest cannot be used [{}]", StartCode::ContractInvalid)]
    Manifest(#[source] ManifestError),
    /// Code contributes a contract that the profile does not name.
    #[error(
        "contract {0} is contributed by code, but no manifest of the profile names it [{code}]",
        code = StartCode::ContractInvalid
    )]
    UnnamedContribution(ContractKey),
    /// The contracts make no catalog.
    #[error("the contracts do not compile [{}]", compile_code(.0))]
    Contracts(#[source] CompileError),
    /// The lock file cannot be read.
    #[error("the lock file {} cannot be read [{}]", file.display(), StartCode::FileUnreadable)]
    LockFile {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The lock does not hold the catalog.
    #[error("the lock file {} does not hold the catalog [{}]", file.display(), StartCode::HashMismatch)]
    Lock {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: LockError,
    },
    /// The bindings make no set.
    #[error("the destinations do not make a set [{}]", binding_set_code(.0))]
    Bindings(#[source] BindingSetError),
    /// Contracts and bindings do not fit.
    #[error("contracts and destinations do not fit [{}]", bind_code(.0))]
    Bind(#[source] BindError),
    /// A secret cannot be resolved.
    #[error("store.url cannot be resolved [{}]", StartCode::SecretUnresolved)]
    Secret(#[source] SecretError),
    /// A secret of the Kafka client cannot be resolved.
    #[error(
        "app.messaging.kafka.security.{key} cannot be resolved [{code}]",
        code = StartCode::SecretUnresolved
    )]
    KafkaSecret {
        /// Which one.
        key: &'static str,
        /// Why.
        #[source]
        source: SecretError,
    },
    /// The user of the Kafka client cannot be one.
    #[error(
        "app.messaging.kafka.security cannot be used [{}]",
        StartCode::ValueInvalid
    )]
    KafkaCredentials(#[source] CredentialsError),
    /// The certificate authorities of the Kafka client cannot be used.
    #[error(
        "app.messaging.kafka.security.ca cannot be used [{}]",
        StartCode::ValueInvalid
    )]
    KafkaAuthorities(#[source] AuthoritiesError),
    /// The store cannot be opened.
    #[error("the store cannot be opened [{}]", StartCode::StoreUnavailable)]
    Store(#[source] application_core::Cause),
    /// The stores are not one.
    #[error(
        "business, append and relay do not share one store [{}]",
        StartCode::TransactionResourceMismatch
    )]
    Resource(#[source] ResourceMismatch),
    /// The producer's settings contradict each other or a bound.
    #[error(
        "{}: app.messaging.kafka or app.messaging.destinations [{}]",
        file.display(),
        settings_code(source)
    )]
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
         maximum-admitted-records {records} * {record_bytes} bytes of the largest record is more \
         [{}]",
        file.display(),
        StartCode::BytesExceedBound
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
    /// What is sent automatically could be older than what may be sent again.
    #[error(
        "{}: app.messaging.outbox.maximum-automatic-publication-age is {age:?}, but contract \
         {contract} bounds sending the same event again at {horizon:?} [{}]",
        file.display(),
        StartCode::HorizonRelation
    )]
    Horizon {
        /// The profile.
        file: PathBuf,
        /// The contract.
        contract: ContractKey,
        /// The contract's same-event-requeue-horizon.
        horizon: Duration,
        /// The profile's age.
        age: Duration,
    },
    /// The store's epoch cannot be read.
    #[error(
        "the store's publication epoch cannot be read [{}]",
        StartCode::StoreUnavailable
    )]
    Epoch(#[source] AuthorityError),
    /// The store's ACTIVE epoch gives publication to somebody else.
    #[error(
        "the store's ACTIVE epoch is {found}, but a polling profile needs one of POLLING_V2 [{code}]",
        code = StartCode::EpochAuthorityMismatch
    )]
    EpochAuthority {
        /// Its number and who publishes it, or that there is none.
        found: String,
    },
    /// The provider cannot be opened.
    #[error("the provider cannot be opened [{}]", StartCode::ProviderUnavailable)]
    Provider(#[source] application_core::Cause),
}

impl ComposeError {
    /// The stable code, as the text shows it.
    pub fn code(&self) -> StartCode {
        match self {
            Self::NoContract => StartCode::ContractsEmpty,
            Self::Manifest(_) | Self::UnnamedContribution(_) => StartCode::ContractInvalid,
            Self::Contracts(error) => compile_code(error),
            Self::LockFile { .. } => StartCode::FileUnreadable,
            Self::Lock { .. } => StartCode::HashMismatch,
            Self::Bindings(error) => binding_set_code(error),
            Self::Bind(error) => bind_code(error),
            Self::Secret(_) | Self::KafkaSecret { .. } => StartCode::SecretUnresolved,
            Self::KafkaCredentials(_) | Self::KafkaAuthorities(_) => StartCode::ValueInvalid,
            Self::Store(_) | Self::Epoch(_) => StartCode::StoreUnavailable,
            Self::Resource(_) => StartCode::TransactionResourceMismatch,
            Self::ProducerSettings { source, .. } => settings_code(source),
            Self::PermitBytes { .. } => StartCode::BytesExceedBound,
            Self::Horizon { .. } => StartCode::HorizonRelation,
            Self::EpochAuthority { .. } => StartCode::EpochAuthorityMismatch,
            Self::Provider(_) => StartCode::ProviderUnavailable,
        }
    }
}

fn compile_code(error: &CompileError) -> StartCode {
    match error {
        CompileError::Catalog(error) => catalog_code(error),
        CompileError::RoutesDiffer { .. } => StartCode::HashMismatch,
        CompileError::Schema {
            source: SchemaError::Hash { .. },
            ..
        } => StartCode::HashMismatch,
        _ => StartCode::ContractInvalid,
    }
}

fn catalog_code(error: &CatalogError) -> StartCode {
    match error {
        CatalogError::DuplicateContract(_)
        | CatalogError::DuplicateSchema { .. }
        | CatalogError::DuplicatePayloadType { .. } => StartCode::DuplicateId,
        _ => StartCode::ContractInvalid,
    }
}

fn binding_set_code(error: &BindingSetError) -> StartCode {
    match error {
        BindingSetError::DuplicateRevision(_) | BindingSetError::TwoCurrent { .. } => {
            StartCode::DuplicateId
        }
        BindingSetError::NoCurrent(_) => StartCode::DestinationInvalid,
    }
}

fn bind_code(error: &BindError) -> StartCode {
    match error {
        BindError::ExceedsProvider { .. }
        | BindError::ExceedsDestination { .. }
        | BindError::DestinationExceedsProvider { .. }
        | BindError::RecordTooSmall { .. } => StartCode::BytesExceedBound,
        BindError::UnboundDestination { .. } | BindError::IdleDestination(_) => {
            StartCode::DestinationInvalid
        }
        BindError::Contradiction(error) => catalog_code(error),
        _ => StartCode::ContractInvalid,
    }
}

/// The producer judges its own settings; what it says is told apart by its types.
fn settings_code(source: &application_core::Cause) -> StartCode {
    if let Some(error) = source.downcast_ref::<SettingsError>() {
        return match error {
            SettingsError::NoBootstrapServer => StartCode::BootstrapServersEmpty,
            SettingsError::Relation { rule, .. } if rule.contains("timeout") => {
                StartCode::DeadlineRelation
            }
            SettingsError::Relation { rule, .. } | SettingsError::Destination { rule, .. }
                if rule.contains("bytes") =>
            {
                StartCode::BytesExceedBound
            }
            SettingsError::Destination { .. } => StartCode::DestinationInvalid,
            _ => StartCode::ValueInvalid,
        };
    }
    match source.downcast_ref::<DestinationSetError>() {
        Some(
            DestinationSetError::DuplicateRevision(_) | DestinationSetError::SharedTopic { .. },
        ) => StartCode::DuplicateId,
        Some(_) => StartCode::DestinationInvalid,
        None => StartCode::ValueInvalid,
    }
}
