//! The delivery protocol under a model checker: every interleaving at small bounds (stateright).
//!
//! Invariant: each property holds in every world without a bug, every witness is reachable, and
//! each planted bug breaks the property that is about it.

#![forbid(unsafe_code)]

mod authority;
mod bounds;
mod bugs;
mod claim;
mod explorations;
mod planted;
mod properties;
mod protocol;
mod publish;
mod rules;
mod sound;
mod state;
