//! The suite once more, with every claim and outcome entered into a ledger of open attempts.
//!
//! Invariant: the ledger changes nothing that the relay sees, because it is the same cases that say so.

use super::{ControlHarness, DeliveryRow, ObservationRow, OutboxHarness, WindowHarness};
use crate::Cause;
use crate::attempt_ledger::{AttemptLedger, LedgeredDeliveries, LedgeredWindows};
use crate::ports::{
    ClaimFencePort, OutboxAttemptObservationPort, OutboxCapacityPort, OutboxDeliveryPort,
    OutboxDispositionPort, OutboxQueryPort, OutboxRetentionPort, OutboxWindowPort,
    PublicationAuthorityPort, TransactionResourcePort,
};
use domain_core::delivery::{DeliveryStateName, DispatchAuthority};
use domain_core::identity::EventId;
use domain_core::instant::DatabaseInstant;
use std::sync::Arc;
use std::time::Duration;

/// The harness of a store, its relay's ports behind a ledger.
pub struct ThroughLedger<H>(H, Arc<AttemptLedger>);

impl<H: WindowHarness> OutboxHarness for ThroughLedger<H> {
    type Tx = H::Tx;
    type Transactions = H::Transactions;
    type Append = H::Append;
    type Inbox = H::Inbox;

    const MAXIMUM_AGE: Duration = H::MAXIMUM_AGE;

    async fn fresh() -> Self {
        Self(H::fresh().await, Arc::new(AttemptLedger::new(10_000)))
    }

    fn transactions(&self) -> Arc<Self::Transactions> {
        self.0.transactions()
    }

    fn outbox(&self) -> Arc<Self::Append> {
        self.0.outbox()
    }

    fn inbox(&self) -> Arc<Self::Inbox> {
        self.0.inbox()
    }

    fn deliveries(&self) -> Arc<dyn OutboxDeliveryPort> {
        Arc::new(LedgeredDeliveries::new(
            self.0.deliveries(),
            Arc::clone(&self.1),
        ))
    }

    fn observations(&self) -> Arc<dyn OutboxAttemptObservationPort> {
        self.0.observations()
    }

    fn query(&self) -> Arc<dyn OutboxQueryPort> {
        self.0.query()
    }

    fn resources(&self) -> Vec<Arc<dyn TransactionResourcePort>> {
        self.0.resources()
    }

    async fn insert_business_row<'t>(tx: &'t mut Self::Tx, key: &'t str) -> Result<(), Cause> {
        H::insert_business_row(tx, key).await
    }

    async fn business_rows(&self) -> Vec<String> {
        self.0.business_rows().await
    }

    async fn database_now(&self) -> DatabaseInstant {
        self.0.database_now().await
    }

    async fn delivery(&self, event: &EventId) -> Option<DeliveryRow> {
        self.0.delivery(event).await
    }

    async fn journal(&self, event: &EventId) -> Vec<ObservationRow> {
        self.0.journal(event).await
    }

    async fn activate_epoch(&self, authority: Option<DispatchAuthority>) {
        self.0.activate_epoch(authority).await;
    }

    async fn force_state(&self, event: &EventId, state: DeliveryStateName) {
        self.0.force_state(event, state).await;
    }

    async fn pause(&self) {
        self.0.pause().await;
    }
}

impl<H: WindowHarness> WindowHarness for ThroughLedger<H> {
    fn windows(&self) -> Arc<dyn OutboxWindowPort> {
        Arc::new(LedgeredWindows::new(self.0.windows(), Arc::clone(&self.1)))
    }
}

impl<H: WindowHarness + ControlHarness> ControlHarness for ThroughLedger<H> {
    fn dispositions(&self) -> Arc<dyn OutboxDispositionPort> {
        self.0.dispositions()
    }

    fn fences(&self) -> Arc<dyn ClaimFencePort> {
        self.0.fences()
    }

    fn authority(&self) -> Arc<dyn PublicationAuthorityPort> {
        self.0.authority()
    }

    fn retention(&self) -> Arc<dyn OutboxRetentionPort> {
        self.0.retention()
    }

    fn capacity(&self) -> Arc<dyn OutboxCapacityPort> {
        self.0.capacity()
    }

    fn ungated_transactions(&self) -> Arc<Self::Transactions> {
        self.0.ungated_transactions()
    }

    async fn audit_rows(&self, event: &EventId) -> u64 {
        self.0.audit_rows(event).await
    }

    async fn authority_audit_rows(&self) -> u64 {
        self.0.authority_audit_rows().await
    }
}
