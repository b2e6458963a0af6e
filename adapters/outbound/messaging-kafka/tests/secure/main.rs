//! The producer under `kafka-sasl-ssl-scram-sha-512.v1`, on one real broker with TLS, SCRAM users
//! and access rules (requirement 004 §§22.2–22.5, 28.8).
//!
//! Invariant: the broker is this binary's own and a missing one fails the lane; every refusal is
//! held against what lies on the topic, and every case ends with a look for secrets in whatever
//! was logged.

mod authority;
mod broker;
mod channel;
#[expect(dead_code, reason = "shared with the binary `it`")]
#[path = "../it/fixture.rs"]
mod fixture;
mod healing;
mod identity;
mod load;
mod log;
#[path = "../it/proxy.rs"]
mod proxy;
#[expect(dead_code, reason = "shared with the binary `it`")]
#[path = "../it/replacing.rs"]
mod replacing;
mod rights;
mod secrets;
#[expect(dead_code, reason = "shared with the binary `it`")]
#[path = "../it/topic.rs"]
mod topic;
