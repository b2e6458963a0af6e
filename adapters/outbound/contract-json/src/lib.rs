//! JSON envelope codec, schema validation and the contract catalog compiler.
//!
//! Invariant: one encoder and one decoder for the whole product, both behind the port
//! `EnvelopeCodec`; schemas are compiled at start-up from what is checked in, and nothing is ever
//! fetched (requirement 004 §§12.3, 13, 14).
#![forbid(unsafe_code)]

mod admission;
mod catalog;
mod codec;
mod envelope;
mod json;
mod lock;
mod manifest;
mod occurrence;
mod payload;
mod schema;

pub use admission::{Admission, MAXIMUM_SCHEMA_BYTES};
pub use catalog::{
    BindError, BoundCatalog, CompileError, CompiledCatalog, ContractCompiler, ContractOverride,
    Deployment, ProviderBounds,
};
pub use codec::JsonEnvelopeCodec;
pub use lock::{ContractsLock, LockError, LockedContract};
pub use manifest::{Manifest, ManifestContract, ManifestError, load_manifest, load_manifests};
pub use payload::ShapeError;
pub use schema::{SchemaError, validation_options};
