//! The store on a real PostgreSQL, each test in a schema of its own.
//!
//! Invariant: the server is the one that `COUNTERSIGN_TEST_POSTGRES_URL` names; without it every
//! test here fails and says so. Nothing sleeps: conditions are waited for with a deadline.
#![forbid(unsafe_code)]

mod harness;
mod operator;
mod place;
mod proxy;
mod sample;
mod tamper;
mod wait;

mod authority;
mod capacity;
mod claims;
mod commit_reply;
mod conformance;
mod cost;
mod disposition;
mod epoch_races;
mod faults;
mod fence;
mod freeze;
mod inbox;
mod legacy;
mod migrations;
mod plans;
mod planted;
mod requeue;
mod retention;
mod retention_races;
mod roles;
mod schema;
mod sessions;
mod transitions;
mod upkeep_roles;
mod window;
mod window_faults;
