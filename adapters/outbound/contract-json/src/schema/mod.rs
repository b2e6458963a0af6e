//! Payload schemas: what they may say, how they agree with a contract, how they judge.
//!
//! Invariant: nothing is ever fetched. A schema refers to its own definitions and to the envelope
//! schema that is compiled in, and to nothing else (requirement 004 §§14.1, 14.7).

mod agreement;
mod document;
mod error;
mod references;
mod validator;

pub(crate) use agreement::agree;
pub(crate) use document::{SchemaDocument, envelope_schema_digest};
pub(crate) use validator::Judge;

pub use error::SchemaError;
pub use validator::validation_options;
