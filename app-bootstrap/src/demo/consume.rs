//! Reading the journal back and applying each record through the inbox.
//!
//! Invariant: every run reads from the first record; what was applied before is a duplicate, and
//! an equal event id with another document is refused.

use super::account::BrokerView;
use super::commit::Feature;
use super::error::DemoError;
use super::progress::Progress;
use crate::compose::Compiled;
use application_core::ports::{InboxStorePort, TransactionError, TransactionPort};
use application_core::usecase::{ConsumeEvent, ConsumeOutcome, TransportHeaders};
use domain_core::hashing::envelope_sha256;
use domain_core::journal::Sequence;
use outbound_journal::Journal;
use outbound_journal::broker::BrokerReader;
use portfolio::consume::{ReadModelHandler, read_model_consumer};
use portfolio::store::{PortfolioDatabase, ReadModelStore, StoreError};
use std::future::Future;
use std::sync::Arc;

/// Consuming on a store whose connections are `C`.
pub(super) trait Consumes<C> {
    /// Reads the whole journal through the inbox.
    fn consume(
        &self,
        compiled: &Compiled,
        journal: &Arc<Journal>,
        progress: &Progress,
    ) -> impl Future<Output = Result<BrokerView, DemoError>> + Send;

    /// Events folded into the read model, counted there.
    fn applied(&self) -> impl Future<Output = Result<u64, DemoError>> + Send;
}

impl<T, P, I, S, C> Consumes<C> for Feature<T, P, I, S>
where
    C: Send + 'static,
    T: TransactionPort,
    T::Tx: AsMut<C> + 'static,
    P: Send + Sync,
    I: InboxStorePort<T::Tx> + 'static,
    S: ReadModelStore<T::Tx> + PortfolioDatabase<C> + 'static,
{
    async fn consume(
        &self,
        compiled: &Compiled,
        journal: &Arc<Journal>,
        progress: &Progress,
    ) -> Result<BrokerView, DemoError> {
        let consumer = ConsumeEvent::new(
            Arc::clone(&self.transactions),
            Arc::clone(&self.inbox),
            Arc::new(ReadModelHandler::new(Arc::clone(&self.database))),
            Arc::clone(&compiled.codec),
            read_model_consumer(),
        );
        let mut reader = BrokerReader::open(journal, Sequence::FIRST)
            .map_err(|error| DemoError::Broker(Box::new(error)))?;
        let mut view = BrokerView::at(super::journal_position(journal));
        let bar = progress.bar(Some(journal.head().records()), "consume");
        loop {
            let envelope = match reader.next_published() {
                Ok(Some((_, published))) => published.envelope().to_vec(),
                Ok(None) => break,
                Err(error) => return Err(DemoError::Broker(Box::new(error))),
            };
            bar.inc(1);
            match compiled.codec.read_identities(&envelope) {
                Ok(identities) => view.saw(identities.event_id, envelope_sha256(&envelope)),
                Err(_) => view.saw_foreign(),
            }
            match consumer
                .execute(&envelope, TransportHeaders::default())
                .await
                .map_err(DemoError::Consume)?
            {
                ConsumeOutcome::Applied | ConsumeOutcome::Duplicate | ConsumeOutcome::NotWanted => {
                }
                ConsumeOutcome::Refused(refused) => {
                    progress.say(&format!("not applied: {}", crate::chain(&refused)));
                    view.refused_by_consumer += 1;
                }
            }
        }
        bar.finish_and_clear();
        Ok(view)
    }

    async fn applied(&self) -> Result<u64, DemoError> {
        let database = Arc::clone(&self.database);
        let counted: Result<_, TransactionError<StoreError>> = self
            .transactions
            .in_write(move |tx| {
                Box::pin(async move { database.read_model_counts(tx.as_mut()).await })
            })
            .await;
        counted
            .map(|counts| counts.events)
            .map_err(|error| DemoError::Business(Box::new(error)))
    }
}
