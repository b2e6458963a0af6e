//! The consumer's effect: a read model of work logs and posters.
//!
//! Invariant: the effect writes only through the inbox's transaction; an event whose payload
//! contradicts its envelope is never applied.

use crate::contracts::{Contract, PosterPublished, WorkLogCompleted, WorkLogReserved};
use crate::store::{Observation, ReadModelStore};
use application_core::event::EventIdentities;
use application_core::ports::{
    DecodedEnvelope, HandlerError, IntegrationEventHandler, WriteTransaction,
};
use domain_core::identity::ConsumerId;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Names this consumer's effect in the inbox. Another effect over the same events is another id.
pub fn read_model_consumer() -> ConsumerId {
    ConsumerId::parse("portfolio.read-model.v1").expect("a valid constant")
}

/// Folds the sample's events into the read model.
pub struct ReadModelHandler<S> {
    store: Arc<S>,
}

impl<S> ReadModelHandler<S> {
    /// Writes to this store.
    pub fn new(store: Arc<S>) -> Self {
        Self { store }
    }
}

impl<Tx, S> IntegrationEventHandler<Tx> for ReadModelHandler<S>
where
    Tx: WriteTransaction,
    S: ReadModelStore<Tx>,
{
    fn wants(&self, identities: &EventIdentities) -> bool {
        Contract::find(&identities.contract_id, identities.payload_version).is_some()
    }

    async fn apply<'t>(
        &'t self,
        tx: &'t mut Tx,
        event: &'t DecodedEnvelope,
    ) -> Result<(), HandlerError> {
        let observation = observe(event)?;
        self.store
            .observe(tx, &observation)
            .await
            .map_err(|error| HandlerError::Failed(Box::new(error)))
    }
}

/// What an event says about its aggregate.
fn observe(event: &DecodedEnvelope) -> Result<Observation, HandlerError> {
    let identities = &event.identities;
    let contract = Contract::find(&identities.contract_id, identities.payload_version)
        .ok_or_else(|| unacceptable("the contract is not the portfolio's"))?;
    let (id, title, status) = match contract {
        Contract::WorkLogReserved => {
            let payload: WorkLogReserved = read(event)?;
            (payload.work_log_id, Some(payload.title), "reserved")
        }
        Contract::WorkLogCompleted => {
            let payload: WorkLogCompleted = read(event)?;
            (payload.work_log_id, None, payload.status.as_str())
        }
        Contract::PosterPublished => {
            let payload: PosterPublished = read(event)?;
            (payload.poster_id, Some(payload.title), "published")
        }
    };
    let aggregate = &identities.aggregate;
    if *aggregate.aggregate_type() != contract.aggregate_type() || aggregate.id().as_str() != id {
        return Err(unacceptable(
            "the payload is about another aggregate than the envelope",
        ));
    }
    Ok(Observation {
        aggregate: aggregate.clone(),
        sequence: identities.order.sequence(),
        title,
        status,
    })
}

fn read<T: DeserializeOwned>(event: &DecodedEnvelope) -> Result<T, HandlerError> {
    // The reader's message may repeat a value, so it is not kept.
    serde_json::from_slice(&event.payload)
        .map_err(|_| unacceptable("the payload is not of its contract's shape"))
}

fn unacceptable(reason: &str) -> HandlerError {
    HandlerError::Unacceptable(reason.to_owned())
}
