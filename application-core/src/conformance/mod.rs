//! Conformance suites; every implementation of a port runs them, fakes included.
//!
//! Invariant: a suite sees an implementation through its ports and through one harness trait, and
//! it never sleeps: it polls a condition until a deadline. The runtime belongs to the
//! implementing crate.

pub mod fake_store;
pub mod outbox;
