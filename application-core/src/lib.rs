//! Ports and use cases of the outbox.
//!
//! Invariant: this crate knows no driver, no framework and no runtime. A use case awaits only its
//! ports, clock and randomness among them, and spawns nothing, so that the shipped use cases run
//! unchanged under a simulator.
#![forbid(unsafe_code)]

pub mod attempt_ledger;
pub mod contract;
pub mod disposition;
pub mod event;
pub mod late_queue;
pub mod ports;
pub mod rotation;
pub mod usecase;

#[cfg(feature = "conformance")]
pub mod conformance;

/// The cause of a technical error, as its adapter saw it. Adapters keep secrets and payloads out.
pub type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;
