//! The lanes that `cargo xtask test` and `cargo xtask ci` run.
//!
//! Invariant: a lane that could not run what it is for counts as failed; none is skipped.

pub(crate) mod bench;
pub(crate) mod ci;
mod contracts;
mod deny;
pub(crate) mod faults;
mod features;
mod prebuilt;
mod runner;
mod summary;
mod tally;
pub(crate) mod test;
