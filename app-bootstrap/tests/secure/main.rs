//! The whole relay over SASL_SSL: PostgreSQL, and the Kafka adapter's own broker with TLS, SCRAM
//! users and access rules.
//!
//! Invariant: what is claimed at the end is read from the database's rows and from the topic; the
//! secrets come from files, as in a deployment.

// The adapter's broker, with what it needs: one copy for both.
#[path = "../../../adapters/outbound/messaging-kafka/tests/secure/authority.rs"]
mod authority;
#[expect(dead_code, reason = "the adapter's tests use all of it")]
#[path = "../../../adapters/outbound/messaging-kafka/tests/secure/broker.rs"]
mod broker;
#[path = "../../../adapters/outbound/messaging-kafka/tests/secure/log.rs"]
mod log;
#[expect(dead_code, reason = "the adapter's tests use all of it")]
#[path = "../../../adapters/outbound/messaging-kafka/tests/it/proxy.rs"]
mod proxy;
mod revoked;
#[path = "../../../adapters/outbound/messaging-kafka/tests/secure/rights.rs"]
mod rights;
#[expect(
    dead_code,
    reason = "what the other tests share; these need a part of it"
)]
#[path = "../it/support.rs"]
mod support;
#[expect(dead_code, reason = "the adapter's tests use all of it")]
#[path = "../../../adapters/outbound/messaging-kafka/tests/it/topic.rs"]
mod topic;
