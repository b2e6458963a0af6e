//! The fake store's transaction-scoped ports, and the reads beside them.
//!
//! Invariant: what a transaction wrote is seen by others after its commit, all at once.

use super::FakeStore;
use super::lock::WritePermit;
use super::state::State;
use crate::event::{EventIdentities, ValidatedIntegrationEvent};
use crate::ports::{
    AppendError, AppendReceipt, DeliverySummary, InboxDecision, InboxError, InboxStorePort,
    OutboxAppendPort, OutboxCounts, OutboxQueryPort, QueryError, ResourceError, TransactionError,
    TransactionPort, TransactionResourcePort, TxFuture, WriteTransaction,
};
use domain_core::authority::WriteAdmissionState;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ConsumerId, EventId, TransactionResourceId};
use std::ops::Bound;

/// A write transaction under way: a copy of the state, and the right to replace it.
pub struct FakeWriteTransaction {
    pub(super) state: State,
    rollback_only: bool,
    _permit: WritePermit,
}

/// Runs write transactions.
#[derive(Clone)]
pub struct FakeTransactions {
    pub(super) store: FakeStore,
    /// Whether a freeze stops them.
    pub(super) gated: bool,
}

/// Appends.
#[derive(Clone)]
pub struct FakeOutbox(pub(super) FakeStore);

/// Remembers what consumers saw.
#[derive(Clone)]
pub struct FakeInbox(pub(super) FakeStore);

impl FakeStore {
    pub(super) async fn begin(&self) -> FakeWriteTransaction {
        let permit = self.writer.acquire().await;
        FakeWriteTransaction {
            state: self.state().clone(),
            rollback_only: false,
            _permit: permit,
        }
    }

    pub(super) fn commit(&self, tx: FakeWriteTransaction) {
        let mut state = self.state();
        // The clock belongs to nobody's transaction.
        let now = state.now;
        *state = tx.state;
        state.now = now;
    }
}

impl FakeWriteTransaction {
    /// Inserts one business row, unless its key is taken.
    pub fn insert_business_row(&mut self, key: &str) -> bool {
        self.state.business.insert(key.to_owned())
    }
}

impl WriteTransaction for FakeWriteTransaction {
    fn mark_rollback_only(&mut self) {
        self.rollback_only = true;
    }
}

impl TransactionPort for FakeTransactions {
    type Tx = FakeWriteTransaction;

    async fn in_write<'a, T, E, W>(&'a self, work: W) -> Result<T, TransactionError<E>>
    where
        T: Send + 'a,
        E: std::error::Error + Send + 'static,
        W: for<'t> FnOnce(&'t mut Self::Tx) -> TxFuture<'t, T, E> + Send + 'a,
    {
        let mut tx = self.store.begin().await;
        let admission = tx.state.admission.state;
        if self.gated && admission != WriteAdmissionState::Open {
            return Err(TransactionError::NotAdmitted(admission));
        }
        let value = work(&mut tx).await.map_err(TransactionError::Work)?;
        if tx.rollback_only {
            return Err(TransactionError::RollbackOnly);
        }
        self.store.commit(tx);
        Ok(value)
    }
}

impl OutboxAppendPort<FakeWriteTransaction> for FakeOutbox {
    async fn append<'t>(
        &'t self,
        tx: &'t mut FakeWriteTransaction,
        event: &'t ValidatedIntegrationEvent,
    ) -> Result<AppendReceipt, AppendError> {
        let appended = tx.state.append(event);
        if appended.is_err() {
            tx.mark_rollback_only();
        }
        appended
    }
}

impl InboxStorePort<FakeWriteTransaction> for FakeInbox {
    async fn record<'t>(
        &'t self,
        tx: &'t mut FakeWriteTransaction,
        consumer: &'t ConsumerId,
        event: &'t EventIdentities,
        envelope_sha256: Sha256Digest,
    ) -> Result<InboxDecision, InboxError> {
        Ok(tx.state.receive(consumer, event, envelope_sha256))
    }
}

#[async_trait::async_trait]
impl OutboxQueryPort for FakeStore {
    async fn counts(&self) -> Result<OutboxCounts, QueryError> {
        Ok(self.state().counts())
    }

    async fn find_delivery(
        &self,
        event_id: &EventId,
    ) -> Result<Option<DeliverySummary>, QueryError> {
        Ok(self.state().summary(event_id))
    }

    async fn deliveries_after(
        &self,
        after: Option<&EventId>,
        limit: u32,
    ) -> Result<Vec<DeliverySummary>, QueryError> {
        let state = self.state();
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(state
            .deliveries
            .range::<EventId, _>((after, Bound::Unbounded))
            .filter_map(|(event_id, _)| state.summary(event_id))
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .collect())
    }
}

/// Every one of the fake's ports leads to its one store.
macro_rules! names_its_store {
    ($($port:ty => $store:expr),+ $(,)?) => {
        $(
            #[async_trait::async_trait]
            impl TransactionResourcePort for $port {
                async fn resource_id(&self) -> Result<TransactionResourceId, ResourceError> {
                    let store: fn(&Self) -> &FakeStore = $store;
                    Ok(store(self).state().resource.clone())
                }
            }
        )+
    };
}
names_its_store!(
    FakeStore => |store| store,
    FakeTransactions => |port| &port.store,
    FakeOutbox => |port| &port.0,
    FakeInbox => |port| &port.0,
);
