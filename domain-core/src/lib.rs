//! Facts and rules of the outbox: identities, hashes, delivery states, publication outcomes.
//!
//! Invariant: no async, no I/O, no serialization library, no telemetry. Everything here is a value
//! or a pure function of values; time and randomness come in as arguments.
#![forbid(unsafe_code)]

pub mod authority;
pub mod capacity;
pub mod delivery;
pub mod hashing;
pub mod identity;
pub mod instant;
pub mod journal;
pub mod publication;
