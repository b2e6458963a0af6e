//! The producer on three brokers of its own: replication factor 3, `min.insync.replicas` 2, no
//! unclean election (requirement 004 §28.7).
//!
//! Invariant: every record is sent once by this binary and its outcome is held against what the
//! brokers hand out at the end; a missing service fails the lane. Cases take turns, since each
//! takes brokers away.
//!
//! `COUNTERSIGN_TEST_CLUSTER_RECORDS` says how many records are sent while leaders move; 20,000
//! without it.

mod account;
mod cluster;
#[expect(dead_code, reason = "shared with the binary `it`")]
#[path = "../it/fixture.rs"]
mod fixture;
mod leaders;
#[expect(dead_code, reason = "shared with the binary `it`")]
#[path = "../it/replacing.rs"]
mod replacing;
mod replicas;
#[expect(dead_code, reason = "shared with the binary `it`")]
#[path = "../it/topic.rs"]
mod topic;
