//! Sample feature: work logs and posters with their own contracts.
//!
//! A command from the input changes an aggregate and appends one integration event in the same
//! write transaction; a consumer folds the events into a read model. The feature knows ports and
//! the two drivers' connections, and no adapter (requirement 004 §9.8).
//!
//! Invariant: business row and event commit together or not at all, and nothing about an input
//! line is believed before its contract and the business accepted it.
#![forbid(unsafe_code)]

pub mod consume;
pub mod contracts;
pub mod execute;
pub mod input;
pub mod model;
pub mod store;

/// A small input that every rule accepts: several events about each of five aggregates.
pub const SAMPLE_INPUT: &str = include_str!("../data/portfolio.ndjson");
