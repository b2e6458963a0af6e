//! The start-up compiler (requirement 004 §§13.2–13.3).
//!
//! Invariant: two steps. What a repository states becomes a [`CompiledCatalog`]; what a deployment
//! adds, which can only tighten it, makes a [`BoundCatalog`]. Only the latter encodes.

mod bind;
mod bind_error;
mod compile;

pub use bind::{BoundCatalog, ContractOverride, Deployment, ProviderBounds};
pub use bind_error::BindError;
pub use compile::{CompileError, CompiledCatalog, ContractCompiler};

pub(crate) use bind::BoundContract;
