//! Executing the input: business rows and events, line by line.
//!
//! Invariant: a refused line leaves nothing behind and the run goes on. A line that names no event
//! id gets one derived from its own bytes, so the same line again is recognized as committed
//! before. A named event id that is already there is refused, since what it says is not compared.

use super::error::DemoError;
use super::progress::Progress;
use crate::compose::Compiled;
use application_core::ports::{
    InboxStorePort, OutboxAppendPort, OutboxQueryPort, RejectionRule, TransactionError,
    TransactionPort,
};
use application_core::usecase::IntegrationEventAppender;
use domain_core::hashing::{CanonicalHasher, Sha256Digest};
use domain_core::identity::EventId;
use portfolio::execute::{EventIdSource, ExecuteCommand, ExecuteError};
use portfolio::input::{Command, CommandReader, InputLine, Refusal, RefusedLine};
use portfolio::store::{PortfolioDatabase, PortfolioRepository, StoreError};
use std::collections::HashSet;
use std::future::Future;
use std::io::BufRead;
use std::sync::Arc;

/// Refused lines kept word for word; further ones are only counted.
const LISTED_REFUSALS: usize = 100;

/// The sample feature on one store.
pub(super) struct Feature<T, P, I, S> {
    pub(super) transactions: Arc<T>,
    pub(super) outbox: Arc<P>,
    pub(super) inbox: Arc<I>,
    pub(super) database: Arc<S>,
}

/// What the input came to.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Lines read, blank ones aside.
    pub(super) lines: u64,
    /// Lines that an earlier run committed, byte for byte.
    pub(super) known_before: u64,
    /// Rows of `outbox_event` before the first line.
    pub(super) events_before: u64,
    /// Lines whose transaction returned committed.
    pub(super) executed: u64,
    /// Lines refused.
    pub(super) refused: u64,
    /// The first of them.
    pub(super) refusals: Vec<RefusedLine>,
    /// The event that is to fail once.
    pub(super) first_new: Option<EventId>,
}

impl Committed {
    fn refuse(&mut self, line: RefusedLine, progress: &Progress) {
        progress.say(&format!("refused: {line}"));
        self.refused += 1;
        if self.refusals.len() < LISTED_REFUSALS {
            self.refusals.push(line);
        }
    }
}

/// Tables and commands over a store whose connections are `C`.
pub(super) trait Commits<C> {
    /// Creates the sample's tables.
    fn prepare(&self) -> impl Future<Output = Result<(), DemoError>> + Send;

    /// Executes the input.
    fn commit(
        &self,
        compiled: &Compiled,
        query: &dyn OutboxQueryPort,
        input: Box<dyn BufRead + Send>,
        progress: &Progress,
    ) -> impl Future<Output = Result<Committed, DemoError>> + Send;
}

impl<T, P, I, S, C> Commits<C> for Feature<T, P, I, S>
where
    C: Send + 'static,
    T: TransactionPort,
    T::Tx: AsMut<C> + 'static,
    P: OutboxAppendPort<T::Tx> + 'static,
    I: InboxStorePort<T::Tx> + 'static,
    S: PortfolioRepository<T::Tx> + PortfolioDatabase<C> + 'static,
{
    async fn prepare(&self) -> Result<(), DemoError> {
        let database = Arc::clone(&self.database);
        let prepared: Result<(), TransactionError<StoreError>> = self
            .transactions
            .in_write(move |tx| Box::pin(async move { database.create_tables(tx.as_mut()).await }))
            .await;
        prepared.map_err(|error| DemoError::Business(Box::new(error)))
    }

    async fn commit(
        &self,
        compiled: &Compiled,
        query: &dyn OutboxQueryPort,
        input: Box<dyn BufRead + Send>,
        progress: &Progress,
    ) -> Result<Committed, DemoError> {
        let appender =
            IntegrationEventAppender::new(Arc::clone(&compiled.codec), Arc::clone(&self.outbox));
        let execute =
            ExecuteCommand::new(Arc::clone(&self.database), appender, Arc::new(NoFurtherIds));
        let bar = progress.bar(None, "commit");
        let mut committed = Committed {
            events_before: query.counts().await.map_err(DemoError::Query)?.events,
            ..Committed::default()
        };
        let mut executed_now = HashSet::new();
        for line in CommandReader::new(input) {
            committed.lines += 1;
            bar.inc(1);
            let (number, mut command, sha256) = match line.map_err(DemoError::Read)? {
                InputLine::Refused(refused) => {
                    committed.refuse(refused, progress);
                    continue;
                }
                InputLine::Command {
                    line,
                    command,
                    sha256,
                } => (line, command, sha256),
            };
            let named = command.event_id.is_some();
            let event_id = command
                .event_id
                .get_or_insert_with(|| id_of_line(sha256))
                .clone();
            let known = query
                .find_delivery(&event_id)
                .await
                .map_err(DemoError::Query)?;
            if known.is_some() && !executed_now.contains(&event_id) {
                if named {
                    committed.refuse(taken(&command).at_line(number), progress);
                } else {
                    committed.known_before += 1;
                }
                continue;
            }
            match execute.execute(self.transactions.as_ref(), *command).await {
                Ok(executed) => {
                    committed.executed += 1;
                    committed
                        .first_new
                        .get_or_insert_with(|| executed.event_id.clone());
                    executed_now.insert(executed.event_id);
                }
                Err(error) => match refusal(&error) {
                    Some(refusal) => committed.refuse(refusal.at_line(number), progress),
                    None => {
                        return Err(DemoError::Execute {
                            line: number,
                            source: Box::new(error),
                        });
                    }
                },
            }
        }
        bar.finish_and_clear();
        Ok(committed)
    }
}

fn refusal(error: &TransactionError<ExecuteError>) -> Option<Refusal> {
    match error {
        TransactionError::Work(error) => error.refusal(),
        _ => None,
    }
}

/// The event id of a line that names none.
fn id_of_line(sha256: Sha256Digest) -> EventId {
    let digest = CanonicalHasher::new("countersign.demo.event-id.v1")
        .part(sha256.as_bytes())
        .finish()
        .to_hex();
    EventId::parse(&digest[..32]).expect("hexadecimal is within the grammar")
}

/// The refusal of an event id that an earlier run committed.
fn taken(command: &Command) -> Refusal {
    Refusal {
        contract: Some(command.action.contract().key()),
        pointer: "/eventId".to_owned(),
        rule: RejectionRule::Shape(
            "the event id was committed by an earlier run; its content is not compared".to_owned(),
        ),
    }
}

/// Every command has its id by now.
struct NoFurtherIds;

impl EventIdSource for NoFurtherIds {
    fn next_event_id(&self) -> EventId {
        EventId::parse(uuid::Uuid::now_v7().to_string())
            .expect("a UUID's text is within the grammar")
    }
}
