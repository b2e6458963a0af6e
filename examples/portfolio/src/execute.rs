//! The use case: one command, one change of an aggregate, one event.
//!
//! Invariant: business row and event are written through the same write transaction, and after any
//! error that transaction can only roll back.

use crate::contracts::Contract;
use crate::input::{Action, Command, Refusal};
use crate::model::{Poster, RuleBroken, WorkLog};
use crate::store::{PortfolioRepository, StoreError};
use application_core::contract::ContractKey;
use application_core::event::{IntegrationEventDraft, IntegrationPayload};
use application_core::ports::{
    AppendError, AppendReceipt, EncodeError, OutboxAppendPort, RejectionRule, TransactionError,
    TransactionPort, WriteTransaction,
};
use application_core::usecase::{AppendEventError, IntegrationEventAppender};
use domain_core::identity::{
    AggregateIdentity, AggregateOrder, AggregateSequence, EventId, EventIndex,
};
use std::sync::Arc;

/// Where event ids come from when a command brings none.
pub trait EventIdSource: Send + Sync {
    /// An id that nobody has used.
    fn next_event_id(&self) -> EventId;
}

/// What one command led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The appended event.
    pub event_id: EventId,
    /// Its contract.
    pub contract: Contract,
    /// What it is about.
    pub aggregate: AggregateIdentity,
    /// Its place in the aggregate's order.
    pub order: AggregateOrder,
    /// What the outbox added.
    pub receipt: AppendReceipt,
}

/// Why a command led to nothing. Nothing of it may be committed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The business refuses it.
    #[error("contract {contract}: the business refuses the command at {}", broken.pointer)]
    Rule {
        /// The contract of the event that was not made.
        contract: ContractKey,
        /// Where and why.
        #[source]
        broken: RuleBroken,
    },
    /// The event was not appended.
    #[error("contract {contract}: the command's event was not appended")]
    Append {
        /// The event's contract.
        contract: ContractKey,
        /// Why.
        #[source]
        source: AppendEventError,
    },
    /// The business tables did not answer.
    #[error("contract {contract}: the aggregate was not loaded or saved")]
    Store {
        /// The contract of the event that was not made.
        contract: ContractKey,
        /// Why.
        #[source]
        source: StoreError,
    },
}

impl ExecuteError {
    /// What to say about the command's line, when the command itself is at fault; `None` when the
    /// store or the deployment is, and the same command may be taken later.
    pub fn refusal(&self) -> Option<Refusal> {
        let shape = |contract: &ContractKey, pointer: &str, rule: String| Refusal {
            contract: Some(contract.clone()),
            pointer: pointer.to_owned(),
            rule: RejectionRule::Shape(rule),
        };
        match self {
            Self::Rule { contract, broken } => {
                Some(shape(contract, broken.pointer, broken.rule.to_owned()))
            }
            Self::Append { contract, source } => match source {
                AppendEventError::Encode(EncodeError::Rejected(rejection)) => Some(Refusal {
                    contract: Some(rejection.contract.clone()),
                    pointer: rejection.pointer.clone(),
                    rule: rejection.rule.clone(),
                }),
                AppendEventError::Append(error @ AppendError::DuplicateEvent { .. }) => {
                    Some(shape(contract, "/eventId", error.to_string()))
                }
                AppendEventError::Append(error @ AppendError::OrderTaken { .. }) => {
                    Some(shape(contract, "", error.to_string()))
                }
                _ => None,
            },
            Self::Store { .. } => None,
        }
    }
}

/// Executes commands over one repository and one outbox.
pub struct ExecuteCommand<R, P> {
    repository: Arc<R>,
    appender: IntegrationEventAppender<P>,
    ids: Arc<dyn EventIdSource>,
}

impl<R, P> Clone for ExecuteCommand<R, P> {
    fn clone(&self) -> Self {
        Self {
            repository: Arc::clone(&self.repository),
            appender: self.appender.clone(),
            ids: Arc::clone(&self.ids),
        }
    }
}

impl<R, P> ExecuteCommand<R, P> {
    /// Joins the parts.
    pub fn new(
        repository: Arc<R>,
        appender: IntegrationEventAppender<P>,
        ids: Arc<dyn EventIdSource>,
    ) -> Self {
        Self {
            repository,
            appender,
            ids,
        }
    }

    /// Executes one command in a write transaction of its own.
    ///
    /// # Errors
    /// [`TransactionError`]; a command that was refused is its `Work` case.
    pub async fn execute<T>(
        &self,
        transactions: &T,
        command: Command,
    ) -> Result<Executed, TransactionError<ExecuteError>>
    where
        T: TransactionPort,
        R: PortfolioRepository<T::Tx> + 'static,
        P: OutboxAppendPort<T::Tx> + 'static,
    {
        let this = self.clone();
        transactions
            .in_write(move |tx| Box::pin(async move { this.execute_in(tx, &command).await }))
            .await
    }

    /// Executes one command in the caller's write transaction.
    ///
    /// # Errors
    /// [`ExecuteError`]; the transaction is rollback-only afterwards.
    pub async fn execute_in<Tx>(
        &self,
        tx: &mut Tx,
        command: &Command,
    ) -> Result<Executed, ExecuteError>
    where
        Tx: WriteTransaction,
        R: PortfolioRepository<Tx>,
        P: OutboxAppendPort<Tx>,
    {
        let contract = command.action.contract();
        let executed = self.change_and_append(tx, command).await;
        if executed.is_err() {
            tx.mark_rollback_only();
        }
        executed.map_err(|failure| failure.under(contract.key()))
    }

    async fn change_and_append<Tx>(
        &self,
        tx: &mut Tx,
        command: &Command,
    ) -> Result<Executed, Failure>
    where
        Tx: WriteTransaction,
        R: PortfolioRepository<Tx>,
        P: OutboxAppendPort<Tx>,
    {
        let repository = self.repository.as_ref();
        let (version, payload): (AggregateSequence, Box<dyn IntegrationPayload>) =
            match &command.action {
                Action::ReserveWorkLog(reserve) => {
                    let current = repository.find_work_log(tx, &reserve.id).await?;
                    let change = WorkLog::reserve(current.as_ref(), reserve)?;
                    repository.save_work_log(tx, &change.aggregate).await?;
                    (change.aggregate.version, Box::new(change.event))
                }
                Action::CompleteWorkLog(complete) => {
                    let current = repository.find_work_log(tx, &complete.id).await?;
                    let change = WorkLog::complete(current.as_ref(), complete)?;
                    repository.save_work_log(tx, &change.aggregate).await?;
                    (change.aggregate.version, Box::new(change.event))
                }
                Action::PublishPoster(publish) => {
                    let current = repository.find_poster(tx, &publish.id).await?;
                    let change = Poster::publish(current.as_ref(), publish)?;
                    repository.save_poster(tx, &change.aggregate).await?;
                    (change.aggregate.version, Box::new(change.event))
                }
            };
        let draft = self.draft(command, version, payload);
        let receipt = self.appender.append(tx, &draft).await?;
        Ok(Executed {
            event_id: draft.event_id,
            contract: command.action.contract(),
            aggregate: draft.aggregate,
            order: draft.order,
            receipt,
        })
    }

    fn draft(
        &self,
        command: &Command,
        version: AggregateSequence,
        payload: Box<dyn IntegrationPayload>,
    ) -> IntegrationEventDraft {
        let event_id = command.event_id.clone();
        IntegrationEventDraft {
            event_id: event_id.unwrap_or_else(|| self.ids.next_event_id()),
            aggregate: command.action.aggregate(),
            // One event a version, so it is the first and only one of it.
            order: AggregateOrder::new(version, EventIndex::new(0).expect("a valid constant")),
            occurred_at: command.occurred_at,
            correlation_id: command.correlation_id.clone(),
            causation_id: command.causation_id.clone(),
            tenant_id: None,
            trace: command.trace.clone(),
            payload,
        }
    }
}

/// A failure before it is told under which contract.
enum Failure {
    Rule(RuleBroken),
    Append(AppendEventError),
    Store(StoreError),
}

impl Failure {
    fn under(self, contract: ContractKey) -> ExecuteError {
        match self {
            Self::Rule(broken) => ExecuteError::Rule { contract, broken },
            Self::Append(source) => ExecuteError::Append { contract, source },
            Self::Store(source) => ExecuteError::Store { contract, source },
        }
    }
}

impl From<RuleBroken> for Failure {
    fn from(broken: RuleBroken) -> Self {
        Self::Rule(broken)
    }
}

impl From<AppendEventError> for Failure {
    fn from(error: AppendEventError) -> Self {
        Self::Append(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
