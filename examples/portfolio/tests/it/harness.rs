//! What both databases give the suite: a write transaction, an outbox and an inbox in the same
//! store, and a look at the rows.
//!
//! Invariant: outbox and inbox rows go through the same transaction as the sample's rows, so a
//! test that sees one without the other has found a defect.

use application_core::ports::{TransactionPort, WriteTransaction};
use domain_core::identity::{EventId, PublicationEpoch, TransactionResourceId};
use portfolio::execute::EventIdSource;
use portfolio::store::{PortfolioDatabase, PortfolioRepository, ReadModelStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One database of a test's own, with the sample's tables, `test_outbox` and `test_inbox`.
pub(crate) trait Harness: Sized {
    type Connection: Send;
    type Tx: WriteTransaction + 'static;
    type Transactions: TransactionPort<Tx = Self::Tx>;
    type Portfolio: PortfolioRepository<Self::Tx>
        + ReadModelStore<Self::Tx>
        + PortfolioDatabase<Self::Connection>
        + Default
        + 'static;

    async fn open() -> Self;
    async fn close(self);
    fn transactions(&self) -> Arc<Self::Transactions>;
    async fn connection(&self) -> Self::Connection;
    /// Runs a statement that gives one number.
    async fn number(&self, statement: &'static str) -> i64;
    /// Runs a statement.
    async fn run(&self, statement: &'static str);
    /// The documents of `test_outbox`, in the order of their appending.
    async fn envelopes(&self) -> Vec<Vec<u8>>;
}

/// Appends to `test_outbox`.
pub(crate) struct Outbox;

/// Records in `test_inbox`.
pub(crate) struct Inbox;

/// The id that the harness's stores pretend to have.
pub(crate) fn resource() -> TransactionResourceId {
    TransactionResourceId::parse("test-store").expect("an id")
}

pub(crate) fn epoch() -> PublicationEpoch {
    PublicationEpoch::FIRST
}

/// Counts up.
#[derive(Default)]
pub(crate) struct CountedIds(AtomicU32);

impl EventIdSource for CountedIds {
    fn next_event_id(&self) -> EventId {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        EventId::parse(format!("made-{number}")).expect("an id")
    }
}

/// The transaction type, its port, outbox and inbox for one dialect. The connection belongs to
/// the transaction while it lasts.
macro_rules! store {
    ($connection:ty, $begin:literal, $append:literal, $record:literal, $seen:literal) => {
        pub(crate) struct Tx {
            connection: $connection,
            rollback_only: bool,
        }

        impl application_core::ports::WriteTransaction for Tx {
            fn mark_rollback_only(&mut self) {
                self.rollback_only = true;
            }
        }

        impl AsMut<$connection> for Tx {
            fn as_mut(&mut self) -> &mut $connection {
                &mut self.connection
            }
        }

        impl application_core::ports::TransactionPort for Transactions {
            type Tx = Tx;

            fn in_write<'a, T, E, W>(
                &'a self,
                work: W,
            ) -> impl Future<Output = Result<T, TransactionError<E>>> + Send + 'a
            where
                T: Send + 'a,
                E: std::error::Error + Send + 'static,
                W: for<'t> FnOnce(&'t mut Tx) -> TxFuture<'t, T, E> + Send + 'a,
            {
                async move {
                    let mut connection = self.connect().await;
                    sqlx::query($begin)
                        .execute(&mut connection)
                        .await
                        .map_err(|error| TransactionError::Begin(Box::new(error)))?;
                    let mut tx = Tx {
                        connection,
                        rollback_only: false,
                    };
                    let outcome = match work(&mut tx).await {
                        Ok(_) if tx.rollback_only => Err(TransactionError::RollbackOnly),
                        Ok(done) => Ok(done),
                        Err(error) => Err(TransactionError::Work(error)),
                    };
                    let end = if outcome.is_ok() {
                        "COMMIT"
                    } else {
                        "ROLLBACK"
                    };
                    let ended = sqlx::query(end).execute(&mut tx.connection).await;
                    ended.map_err(|error| TransactionError::OutcomeUnknown(Box::new(error)))?;
                    outcome
                }
            }
        }

        impl application_core::ports::OutboxAppendPort<Tx> for crate::harness::Outbox {
            fn append<'t>(
                &'t self,
                tx: &'t mut Tx,
                event: &'t application_core::event::ValidatedIntegrationEvent,
            ) -> impl Future<Output = Result<AppendReceipt, AppendError>> + Send + 't {
                async move {
                    let event_id = &event.identities().event_id;
                    let done = sqlx::query($append)
                        .bind(event_id.as_str())
                        .bind(event.envelope())
                        .execute(&mut tx.connection)
                        .await
                        .map_err(|error| AppendError::Unavailable(Box::new(error)))?;
                    if done.rows_affected() != 1 {
                        tx.rollback_only = true;
                        return Err(AppendError::DuplicateEvent {
                            event_id: event_id.clone(),
                        });
                    }
                    Ok(AppendReceipt {
                        epoch: crate::harness::epoch(),
                        authority: domain_core::delivery::DispatchAuthority::PollingV2,
                        resource: crate::harness::resource(),
                    })
                }
            }
        }

        impl application_core::ports::InboxStorePort<Tx> for crate::harness::Inbox {
            fn record<'t>(
                &'t self,
                tx: &'t mut Tx,
                consumer: &'t domain_core::identity::ConsumerId,
                event: &'t application_core::event::EventIdentities,
                envelope_sha256: domain_core::hashing::Sha256Digest,
            ) -> impl Future<Output = Result<InboxDecision, InboxError>> + Send + 't {
                async move {
                    let unavailable = |error| InboxError::Unavailable(Box::new(error));
                    let done = sqlx::query($record)
                        .bind(consumer.as_str())
                        .bind(event.event_id.as_str())
                        .bind(envelope_sha256.to_hex())
                        .execute(&mut tx.connection)
                        .await
                        .map_err(unavailable)?;
                    if done.rows_affected() == 1 {
                        return Ok(InboxDecision::FirstSeen);
                    }
                    let (seen,): (String,) = sqlx::query_as($seen)
                        .bind(consumer.as_str())
                        .bind(event.event_id.as_str())
                        .fetch_one(&mut tx.connection)
                        .await
                        .map_err(unavailable)?;
                    if seen == envelope_sha256.to_hex() {
                        Ok(InboxDecision::Duplicate)
                    } else {
                        Ok(InboxDecision::Collision)
                    }
                }
            }
        }
    };
}
pub(crate) use store;
