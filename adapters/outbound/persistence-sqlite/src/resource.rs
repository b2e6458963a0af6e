//! Which store a connection really leads to.
//!
//! Invariant: the id is read through the very connection that the adapter works with
//! (requirement 004 §12.4).

use crate::append::SqliteOutbox;
use crate::deliveries::SqliteDeliveries;
use crate::inbox::SqliteInbox;
use crate::query::SqliteQuery;
use crate::row;
use crate::transaction::SqliteTransactions;
use crate::writer::Writer;
use application_core::ports::{ResourceError, TransactionResourcePort};
use domain_core::identity::TransactionResourceId;
use sqlx::sqlite::SqliteRow;

const SELECT: &str = include_str!("sql/select_resource.sql");

fn parse(rows: &[SqliteRow]) -> Result<TransactionResourceId, ResourceError> {
    match rows {
        [only] => row::parsed(only, "resource_id")
            .map_err(|error| ResourceError::Missing(error.to_string())),
        _ => Err(ResourceError::Missing(format!(
            "transaction_resource has {} rows",
            rows.len()
        ))),
    }
}

fn unavailable(error: sqlx::Error) -> ResourceError {
    ResourceError::Unavailable(Box::new(error))
}

async fn through_the_writer(writer: &Writer) -> Result<TransactionResourceId, ResourceError> {
    let mut tx = writer.begin().await.map_err(unavailable)?;
    let rows = sqlx::query(SELECT).fetch_all(tx.connection()).await;
    tx.rollback().await;
    parse(&rows.map_err(unavailable)?)
}

/// Implements the port for adapters that work through the write connection.
macro_rules! reads_through_the_writer {
    ($($adapter:ty),+ $(,)?) => {
        $(
            #[async_trait::async_trait]
            impl TransactionResourcePort for $adapter {
                async fn resource_id(&self) -> Result<TransactionResourceId, ResourceError> {
                    through_the_writer(&self.writer).await
                }
            }
        )+
    };
}
reads_through_the_writer!(
    SqliteTransactions,
    SqliteOutbox,
    SqliteDeliveries,
    SqliteInbox
);

#[async_trait::async_trait]
impl TransactionResourcePort for SqliteQuery {
    async fn resource_id(&self) -> Result<TransactionResourceId, ResourceError> {
        let rows = sqlx::query(SELECT).fetch_all(&self.reads).await;
        parse(&rows.map_err(unavailable)?)
    }
}
