//! Composition root of countersign: one profile becomes one running tuple.
//!
//! Invariant: only this crate knows adapters; no policy lives here, only wiring and loops.
#![forbid(unsafe_code)]

pub mod compose;
pub mod config;
pub mod contracts_lock;
#[cfg(feature = "demo")]
pub mod demo;
pub mod describe;
pub mod failpoints;
pub mod runtime;
pub mod serve;

/// An error and its causes on one line, as logs and exit messages show it.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
