//! Names of the record headers that a transport may carry.
//!
//! Invariant: this is the whole allow-list (requirement 004 §14.3). The envelope is the authority;
//! a header that repeats an identity says the same as the envelope.

/// The event id.
pub const ID: &str = "id";
/// The contract id.
pub const CONTRACT_ID: &str = "contract-id";
/// The payload version, in decimal.
pub const PAYLOAD_VERSION: &str = "payload-version";
/// The W3C trace parent, where one was stored.
pub const TRACEPARENT: &str = "traceparent";
/// The W3C trace state, where one was stored.
pub const TRACESTATE: &str = "tracestate";

/// Every header name, in the order they are written.
pub const ALL: [&str; 5] = [ID, CONTRACT_ID, PAYLOAD_VERSION, TRACEPARENT, TRACESTATE];
