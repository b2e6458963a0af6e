//! One profile becomes one running tuple.
//!
//! Invariant: start-up follows requirement 004 §17.10: everything static is compiled before any
//! resource opens, and no relay turn is taken before stores agree on who they are and the producer
//! is ready. No policy lives here.

mod compiled;
pub mod contracts;
mod embedded;
mod epoch;
mod error;
mod kafka;
mod milestones;
mod producer_view;
mod provider;
mod resource;
mod rotation;
mod security;
mod system;

pub use compiled::Compiled;
pub use embedded::EmbeddedStore;
pub use error::ComposeError;
pub use kafka::KafkaStore;
pub use milestones::{Milestone, Milestones};
pub use producer_view::{ProducerStanding, ProducerView};
pub(crate) use provider::topic_name;
pub use provider::{PreparedProvider, Provider};
pub use resource::{ResourceMismatch, agree};
pub use system::{RelayPorts, RelaySystem};

use crate::config::StoreProfile;
use application_core::ports::PublicationAuthorityPort;
use domain_core::identity::TransactionResourceId;
use std::sync::Arc;

/// The store of either tuple, open.
pub enum Store {
    /// SQLite.
    Embedded(EmbeddedStore),
    /// PostgreSQL.
    Kafka(KafkaStore),
}

impl Store {
    /// Opens the profile's store and brings its schema up to date.
    ///
    /// # Errors
    /// [`ComposeError`].
    pub async fn open(compiled: &Compiled) -> Result<Self, ComposeError> {
        let store = match &compiled.profile.store {
            StoreProfile::Sqlite { path } => EmbeddedStore::open(compiled, path)
                .await
                .map(Self::Embedded),
            StoreProfile::Postgres {
                url,
                maximum_connections,
            } => KafkaStore::open(compiled, url, *maximum_connections)
                .await
                .map(Self::Kafka),
        }?;
        compiled.milestones.reach(Milestone::StoreOpened);
        Ok(store)
    }

    /// The relay's side of the store.
    pub fn relay_ports(&self) -> &system::RelayPorts {
        match self {
            Self::Embedded(store) => &store.relay,
            Self::Kafka(store) => &store.relay,
        }
    }

    /// The store's own id, on which business, append and relay agree.
    pub fn resource_id(&self) -> &TransactionResourceId {
        match self {
            Self::Embedded(store) => &store.resource_id,
            Self::Kafka(store) => &store.resource_id,
        }
    }

    /// Who may write and who may publish.
    pub fn authority(&self) -> &Arc<dyn PublicationAuthorityPort> {
        match self {
            Self::Embedded(store) => &store.authority,
            Self::Kafka(store) => &store.authority,
        }
    }

    /// Waits for what is under way and closes every connection.
    pub async fn close(self) {
        match self {
            Self::Embedded(store) => store.store.close().await,
            Self::Kafka(store) => store.store.close().await,
        }
    }
}
