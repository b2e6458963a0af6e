//! The adapter against real brokers.
//!
//! Invariant: a missing broker fails the lane, never skips it; each test owns its topics, and
//! nothing is asserted about a record that was not read back or reported by the broker.

mod attest;
mod best_effort;
mod broker;
mod console;
mod fixture;
mod limits;
mod memory;
mod proxy;
mod publish;
mod read_back;
mod recovery;
mod replacing;
mod response_loss;
mod rotation;
mod topic;
