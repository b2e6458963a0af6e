//! SQLite outbox store: the embedded default.
//!
//! One file holds the business tables and the outbox. [`SqliteStore::open`] creates or migrates
//! it and hands out one adapter a port. Every write is a `BEGIN IMMEDIATE` transaction on the one
//! write connection, so SQLite's single writer is the fence that row locks are elsewhere; leases,
//! due times and deadlines are judged by `database_clock` after that lock is held.
//!
//! Invariant: nothing commits but through [`SqliteTransactions`] and the relay's own
//! transactions; the connection itself refuses any other commit.
//!
//! An append takes the write transaction and nothing else:
//!
//! ```
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_sqlite::{SqliteOutbox, SqliteWriteTransaction};
//! async fn append(o: &SqliteOutbox, tx: &mut SqliteWriteTransaction, e: &ValidatedIntegrationEvent) {
//!     let _ = o.append(tx, e).await;
//! }
//! ```
//!
//! It cannot be called with a pool, a connection or a read transaction:
//!
//! ```compile_fail,E0308
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_sqlite::SqliteOutbox;
//! async fn append(o: &SqliteOutbox, tx: &mut sqlx::SqlitePool, e: &ValidatedIntegrationEvent) {
//!     let _ = o.append(tx, e).await;
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_sqlite::SqliteOutbox;
//! async fn append(o: &SqliteOutbox, tx: &mut sqlx::SqliteConnection, e: &ValidatedIntegrationEvent) {
//!     let _ = o.append(tx, e).await;
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_sqlite::SqliteOutbox;
//! async fn append(
//!     o: &SqliteOutbox,
//!     tx: &mut sqlx::Transaction<'static, sqlx::Sqlite>,
//!     e: &ValidatedIntegrationEvent,
//! ) {
//!     let _ = o.append(tx, e).await;
//! }
//! ```
//!
//! Nor can anyone but [`SqliteTransactions`] make that write transaction:
//!
//! ```compile_fail
//! # use outbound_persistence_sqlite::SqliteWriteTransaction;
//! let tx = SqliteWriteTransaction { rollback_only: false };
//! ```
#![forbid(unsafe_code)]

mod append;
mod authority;
mod capacity;
mod control;
mod deliveries;
mod disposition;
mod encoding;
mod errors;
mod fence;
mod inbox;
mod migrations;
mod observations;
mod open;
mod query;
mod resource;
mod retention;
mod row;
mod store;
mod transaction;
mod writer;

pub use append::SqliteOutbox;
pub use control::SqliteControl;
pub use deliveries::SqliteDeliveries;
pub use inbox::SqliteInbox;
pub use open::{OpenError, SqliteStoreOptions};
pub use query::SqliteQuery;
pub use store::SqliteStore;
pub use transaction::SqliteTransactions;
pub use writer::SqliteWriteTransaction;
