//! The codec and the compiler from outside: golden vectors, bad inputs, properties.
//!
//! Invariant: every refusal is asserted with its place and rule, never as "some error".

mod catalog;
mod decode_envelope;
mod decode_json;
mod encode;
mod envelope_schema;
mod fixture;
mod golden;
mod golden_invalid;
mod lock;
mod manifest;
mod overrides;
mod properties;
mod schema_rules;
mod versions;
