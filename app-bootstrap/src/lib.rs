//! Composition root of countersign: one profile becomes one running tuple.
//!
//! Invariant: only this crate knows adapters; no policy lives here, only wiring and loops.
#![forbid(unsafe_code)]

pub mod config;
