//! The sample's own tables: business rows on the producing side, a read model on the consuming one.
//!
//! Invariant: whatever belongs to an event is written through the caller's write transaction, and
//! an aggregate is only saved over the version it was loaded with.

mod dialect;
mod error;
mod rows;

pub use dialect::{PostgresPortfolio, SqlitePortfolio};
pub use error::StoreError;

use crate::model::{Poster, WorkLog};
use application_core::ports::WriteTransaction;
use domain_core::identity::{AggregateId, AggregateIdentity, AggregateSequence};
use std::future::Future;

/// Loads and saves the aggregates of the store that `Tx` writes to.
pub trait PortfolioRepository<Tx: WriteTransaction>: Send + Sync {
    /// Loads a work log.
    ///
    /// # Errors
    /// [`StoreError`]; MUST be `Corrupt` for a row that is no work log.
    fn find_work_log<'t>(
        &'t self,
        tx: &'t mut Tx,
        id: &'t AggregateId,
    ) -> impl Future<Output = Result<Option<WorkLog>, StoreError>> + Send + 't;

    /// Saves a work log over the version before its own; version 1 is a new row.
    ///
    /// # Errors
    /// [`StoreError`]; MUST be `Stale` when another version is there.
    fn save_work_log<'t>(
        &'t self,
        tx: &'t mut Tx,
        work_log: &'t WorkLog,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 't;

    /// Loads a poster.
    ///
    /// # Errors
    /// [`StoreError`]; MUST be `Corrupt` for a row that is no poster.
    fn find_poster<'t>(
        &'t self,
        tx: &'t mut Tx,
        id: &'t AggregateId,
    ) -> impl Future<Output = Result<Option<Poster>, StoreError>> + Send + 't;

    /// Saves a poster over the version before its own; version 1 is a new row.
    ///
    /// # Errors
    /// [`StoreError`]; MUST be `Stale` when another version is there.
    fn save_poster<'t>(
        &'t self,
        tx: &'t mut Tx,
        poster: &'t Poster,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 't;
}

/// What one event says about its aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The aggregate.
    pub aggregate: AggregateIdentity,
    /// The event's place in the aggregate's order.
    pub sequence: AggregateSequence,
    /// The title, where the event carries one.
    pub title: Option<String>,
    /// The status after the event.
    pub status: &'static str,
}

/// Writes the read model in the inbox's transaction.
pub trait ReadModelStore<Tx: WriteTransaction>: Send + Sync {
    /// Folds one event in. The same set of events leads to the same rows in any order; that each
    /// event comes here once is the inbox's part.
    ///
    /// # Errors
    /// [`StoreError`].
    fn observe<'t>(
        &'t self,
        tx: &'t mut Tx,
        observation: &'t Observation,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 't;
}

/// How much the read model holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadModelCounts {
    /// Aggregates of either kind.
    pub aggregates: u64,
    /// Events folded in.
    pub events: u64,
    /// Work logs among the aggregates.
    pub work_logs: u64,
    /// Posters among the aggregates.
    pub posters: u64,
}

/// One row of the read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadModelEntry {
    /// The aggregate.
    pub aggregate: AggregateIdentity,
    /// The newest title; `None` while no event carried one.
    pub title: Option<String>,
    /// The status after the newest event: `reserved`, an end of work, or `published`.
    pub status: String,
    /// Events folded in.
    pub event_count: u64,
    /// The newest event's place in the aggregate's order.
    pub last_sequence: AggregateSequence,
}

/// The tables themselves, over a connection that the caller gives.
pub trait PortfolioDatabase<C: Send>: Send + Sync {
    /// Creates the tables that are not there yet. Not meant to run twice at the same time.
    ///
    /// # Errors
    /// [`StoreError`].
    fn create_tables<'c>(
        &'c self,
        connection: &'c mut C,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + 'c;

    /// Counts the read model, from one snapshot.
    ///
    /// # Errors
    /// [`StoreError`].
    fn read_model_counts<'c>(
        &'c self,
        connection: &'c mut C,
    ) -> impl Future<Output = Result<ReadModelCounts, StoreError>> + Send + 'c;

    /// Rows of the read model by kind and id, after the given aggregate.
    ///
    /// # Errors
    /// [`StoreError`].
    fn read_model_after<'c>(
        &'c self,
        connection: &'c mut C,
        after: Option<&'c AggregateIdentity>,
        limit: u16,
    ) -> impl Future<Output = Result<Vec<ReadModelEntry>, StoreError>> + Send + 'c;
}
