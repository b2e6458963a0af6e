//! The Kafka tuples' store: one PostgreSQL database.
//!
//! Invariant: the URL is resolved here, given to the store, and kept nowhere else.

use super::compiled::Compiled;
use super::epoch;
use super::error::ComposeError;
use super::resource::agree;
use super::system::RelayPorts;
use crate::config::SecretReference;
use application_core::ports::{AppendPolicy, PublicationAuthorityPort};
use domain_core::identity::TransactionResourceId;
use outbound_persistence_postgres::{
    PoolSettings, PostgresInbox, PostgresOutbox, PostgresStore, PostgresTransactions,
};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;

/// An open PostgreSQL store and the ports on it.
pub struct KafkaStore {
    pub(super) store: PostgresStore,
    /// The store's own id, on which business, append and relay agree.
    pub resource_id: TransactionResourceId,
    /// Who may write and who may publish.
    pub authority: Arc<dyn PublicationAuthorityPort>,
    /// The relay's side.
    pub relay: RelayPorts,
    /// The business side's write transactions.
    pub transactions: Arc<PostgresTransactions>,
    /// Appends.
    pub outbox: Arc<PostgresOutbox>,
    /// The consumer's inbox.
    pub inbox: Arc<PostgresInbox>,
}

impl KafkaStore {
    pub(super) async fn open(
        compiled: &Compiled,
        url: &SecretReference,
        maximum_connections: u32,
    ) -> Result<Self, ComposeError> {
        let url = url.resolve().map_err(ComposeError::Secret)?;
        let settings = PoolSettings {
            application_name: "countersign".to_owned(),
            maximum_connections,
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            idle_in_transaction_timeout: Duration::from_secs(60),
        };
        let refused = |error: application_core::Cause| ComposeError::Store(error);
        let store = PostgresStore::connect(url.expose_secret(), &settings)
            .await
            .map_err(|error| refused(error.into()))?;
        store
            .migrate()
            .await
            .map_err(|error| refused(error.into()))?;
        let outbox = &compiled.profile.outbox;
        let policy = AppendPolicy::new(
            outbox.maximum_automatic_publication_age,
            outbox.polling_card,
        )
        .map_err(|error| refused(error.into()))?;
        let named = outbox.transaction_resource_id.as_ref();
        let (transactions, outbox) = (store.transactions(), store.outbox(policy));
        let deliveries = store.deliveries();
        let resource_id = agree(
            &transactions,
            &[("append", &outbox), ("relay", &deliveries)],
            named,
        )
        .await
        .map_err(ComposeError::Resource)?;
        let authority: Arc<dyn PublicationAuthorityPort> = Arc::new(store.authority());
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
                capacity: Arc::new(store.capacity()),
                retention: Arc::new(store.retention()),
                dispositions: Arc::new(store.dispositions()),
            },
            transactions: Arc::new(transactions),
            outbox: Arc::new(outbox),
            inbox: Arc::new(store.inbox()),
            store,
        })
    }
}
