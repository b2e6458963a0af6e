//! PostgreSQL outbox store: the production one.
//!
//! Invariant: the database decides. Time is its clock, order its gate, authority its epoch row, and
//! every rule of the core stands again in SQL, so a second process, or another language, is held to
//! the same.
//!
//! # An append needs a write transaction
//!
//! [`PostgresWriteTransaction`] is the only thing [`PostgresOutbox`] appends to, and it exists only
//! inside `in_write`:
//!
//! ```
//! use application_core::event::ValidatedIntegrationEvent;
//! use application_core::ports::{AppendError, OutboxAppendPort, TransactionError, TransactionPort};
//! use outbound_persistence_postgres::{PostgresOutbox, PostgresTransactions};
//!
//! async fn inside(
//!     transactions: &PostgresTransactions,
//!     outbox: PostgresOutbox,
//!     event: ValidatedIntegrationEvent,
//! ) -> Result<(), TransactionError<AppendError>> {
//!     transactions
//!         .in_write(move |tx| {
//!             Box::pin(async move {
//!                 sqlx::query("UPDATE account SET balance = 0")
//!                     .execute(tx.as_mut())
//!                     .await
//!                     .expect("business");
//!                 outbox.append(tx, &event).await.map(drop)
//!             })
//!         })
//!         .await
//! }
//! ```
//!
//! A pool is none:
//!
//! ```compile_fail,E0308
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_postgres::PostgresOutbox;
//! async fn outside(pool: &mut sqlx::PgPool, outbox: PostgresOutbox, event: ValidatedIntegrationEvent) {
//!     outbox.append(pool, &event).await.ok();
//! }
//! ```
//!
//! Neither is a connection:
//!
//! ```compile_fail,E0308
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_postgres::PostgresOutbox;
//! async fn outside(one: &mut sqlx::PgConnection, outbox: PostgresOutbox, event: ValidatedIntegrationEvent) {
//!     outbox.append(one, &event).await.ok();
//! }
//! ```
//!
//! Nor a transaction that somebody else began, which may be read-only:
//!
//! ```compile_fail,E0308
//! # use application_core::event::ValidatedIntegrationEvent;
//! # use application_core::ports::OutboxAppendPort;
//! # use outbound_persistence_postgres::PostgresOutbox;
//! async fn outside(
//!     tx: &mut sqlx::Transaction<'static, sqlx::Postgres>,
//!     outbox: PostgresOutbox,
//!     event: ValidatedIntegrationEvent,
//! ) {
//!     outbox.append(tx, &event).await.ok();
//! }
//! ```
//!
//! And none can be made by hand:
//!
//! ```compile_fail,E0451
//! # use outbound_persistence_postgres::PostgresWriteTransaction;
//! fn forged(tx: sqlx::Transaction<'static, sqlx::Postgres>) -> PostgresWriteTransaction {
//!     PostgresWriteTransaction { tx, rollback_only: false, unproven: false }
//! }
//! ```
#![forbid(unsafe_code)]

mod append;
mod authority;
mod capacity;
mod delivery;
mod disposition;
mod errors;
mod fence;
mod inbox;
mod migrate;
mod query;
mod resource;
mod retention;
mod rows;
mod session;
mod settings;
mod store;
mod transaction;
mod window;

pub use append::PostgresOutbox;
pub use authority::PostgresAuthority;
pub use capacity::PostgresCapacity;
pub use delivery::PostgresDeliveries;
pub use disposition::PostgresDispositions;
pub use errors::DatabaseFault;
pub use fence::PostgresFences;
pub use inbox::PostgresInbox;
pub use migrate::MigrationError;
pub use query::PostgresQuery;
pub use retention::PostgresRetention;
pub use session::WriteIsolation;
pub use settings::{PoolSettings, SettingsError};
pub use store::{ConnectError, PostgresStore};
pub use transaction::{PostgresTransactions, PostgresWriteTransaction};
pub use window::PostgresWindows;
