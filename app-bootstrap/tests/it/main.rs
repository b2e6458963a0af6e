//! Integration tests of the composition root: profiles, contracts, the demo, and the relay killed
//! at every point.
//!
//! Invariant: real PostgreSQL, real Kafka and the real binary; a missing service fails its test.

mod config;
mod contracts;
mod describe;
mod disabled;
mod embedded;
mod held;
#[cfg(feature = "failpoints")]
mod kill;
mod local_kafka;
mod order;
mod readme;
mod resource;
mod rotation;
mod start_codes;
mod support;
