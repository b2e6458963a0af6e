//! The embedded tuple's store: one SQLite file.
//!
//! Invariant: business, append and relay are handed connections of the same file, and are asked
//! for its identity before anything else.

use super::compiled::Compiled;
use super::epoch;
use super::error::ComposeError;
use super::resource::agree;
use super::system::RelayPorts;
use application_core::ports::{AppendPolicy, PublicationAuthorityPort};
use domain_core::identity::TransactionResourceId;
use outbound_persistence_sqlite::{
    SqliteInbox, SqliteOutbox, SqliteStore, SqliteStoreOptions, SqliteTransactions,
};
use std::path::Path;
use std::sync::Arc;

/// An open SQLite store and the ports on it.
pub struct EmbeddedStore {
    pub(super) store: SqliteStore,
    /// The store's own id, on which business, append and relay agree.
    pub resource_id: TransactionResourceId,
    /// Who may write and who may publish.
    pub authority: Arc<dyn PublicationAuthorityPort>,
    /// The relay's side.
    pub relay: RelayPorts,
    /// The business side's write transactions.
    pub transactions: Arc<SqliteTransactions>,
    /// Appends.
    pub outbox: Arc<SqliteOutbox>,
    /// The consumer's inbox.
    pub inbox: Arc<SqliteInbox>,
}

impl EmbeddedStore {
    pub(super) async fn open(compiled: &Compiled, path: &Path) -> Result<Self, ComposeError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| ComposeError::Store(error.into()))?;
        }
        let store = SqliteStore::open(path, SqliteStoreOptions::default())
            .await
            .map_err(|error| ComposeError::Store(error.into()))?;
        let policy = AppendPolicy::new(
            compiled.profile.outbox.maximum_automatic_publication_age,
            compiled.profile.outbox.polling_card,
        )
        .map_err(|error| ComposeError::Store(error.into()))?;
        let outbox = store.outbox(policy);
        let transactions = store.transactions();
        let deliveries = store.deliveries();
        let resource_id = agree(
            &transactions,
            &[("append", &outbox), ("relay", &deliveries)],
            compiled.profile.outbox.transaction_resource_id.as_ref(),
        )
        .await
        .map_err(ComposeError::Resource)?;
        let authority: Arc<dyn PublicationAuthorityPort> = Arc::new(store.control());
        epoch::polled(authority.as_ref()).await?;
        let deliveries = Arc::new(deliveries);
        Ok(Self {
            resource_id,
            authority,
            relay: RelayPorts {
                deliveries: deliveries.clone(),
                observations: deliveries,
                query: Arc::new(store.query()),
                windows: Arc::new(store.windows()),
                capacity: Arc::new(store.control()),
                retention: Arc::new(store.control()),
                dispositions: Arc::new(store.control()),
            },
            transactions: Arc::new(transactions),
            outbox: Arc::new(outbox),
            inbox: Arc::new(store.inbox()),
            store,
        })
    }
}
