//! PostgreSQL outbox store.
#![forbid(unsafe_code)]
