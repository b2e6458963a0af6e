//! An integration event on its way: the draft a feature writes, the validated document, the
//! stored row.
//!
//! Invariant: bytes are encoded once; everything after the encoder carries those exact bytes
//! (requirement 004 §12).

mod draft;
mod stored;
mod trace;
mod validated;

pub use draft::{IntegrationEventDraft, IntegrationPayload, PayloadType};
pub use stored::StoredOutboxEvent;
pub use trace::{TraceContext, TraceContextError};
pub use validated::{EventIdentities, SchemaIdentity, ValidatedIntegrationEvent, ValidatedParts};
