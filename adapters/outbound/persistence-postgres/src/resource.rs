//! The store's own identity, read through each port that start-up compares.
//!
//! Invariant: the id comes from the database behind the port's own pool at the time of the call;
//! nothing is remembered (requirement 004 §12.4).

use crate::append::PostgresOutbox;
use crate::delivery::PostgresDeliveries;
use crate::errors::{DatabaseFault, FaultKind};
use crate::session::{Access, Sessions};
use crate::store::PostgresStore;
use crate::transaction::PostgresTransactions;
use application_core::ports::{ResourceError, TransactionResourcePort};
use domain_core::identity::TransactionResourceId;

async fn read(sessions: &Sessions) -> Result<TransactionResourceId, ResourceError> {
    let text = select(sessions).await.map_err(|fault| match fault.kind() {
        FaultKind::NotMigrated => ResourceError::Missing("the store is not migrated".to_owned()),
        _ => ResourceError::Unavailable(Box::new(fault)),
    })?;
    let text = text.ok_or_else(|| ResourceError::Missing("its row is gone".to_owned()))?;
    TransactionResourceId::parse(text).map_err(|error| ResourceError::Missing(error.to_string()))
}

async fn select(sessions: &Sessions) -> Result<Option<String>, DatabaseFault> {
    let mut tx = sessions.begin(Access::Read).await?;
    Ok(sqlx::query_scalar(include_str!("sql/resource_id.sql"))
        .fetch_optional(&mut *tx)
        .await?)
}

macro_rules! tells_its_resource {
    ($($port:ty),+) => {
        $(
            #[async_trait::async_trait]
            impl TransactionResourcePort for $port {
                async fn resource_id(&self) -> Result<TransactionResourceId, ResourceError> {
                    read(&self.sessions).await
                }
            }
        )+
    };
}

tells_its_resource!(
    PostgresStore,
    PostgresTransactions,
    PostgresOutbox,
    PostgresDeliveries
);
