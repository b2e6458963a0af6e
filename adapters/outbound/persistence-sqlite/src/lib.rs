//! SQLite outbox store: the embedded default.
#![forbid(unsafe_code)]
