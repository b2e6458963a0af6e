//! The journal as embedded broker: a publication is acknowledged when its record is synced.
//!
//! A broker's file holds one event, [`EnvelopePublished`] version 1. [`JournalPublisher`] appends
//! behind the publish port of application-core, and [`BrokerReader`] is what a consumer reads with.
//!
//! What a record carries: when the event occurred, its partition key, its `traceparent` and the
//! exact envelope bytes. What `id`, `contract-id` and `payload-version` say is in the envelope and
//! is derived from it by whoever reads; `tracestate` is not carried.
//!
//! Invariant: `Acknowledged` is said only of a committed record. What is known not to be in the file
//! is rejected, and everything else is indeterminate.

mod outcome;
mod pending;
mod publisher;
mod reader;
mod record;

use std::path::Path;
use std::sync::Arc;

use crate::{Journal, Limits, OpenError, Registry};

pub use publisher::{JournalPublisher, PublisherSettings};
pub use reader::{BrokerReader, DecodeError};
pub use record::{EnvelopePublished, EnvelopePublishedV1, MAX_ENVELOPE_BYTES};

/// Card id of this provider.
pub const PROVIDER_ID: &str = "journal-acknowledged.v1";

/// The registry of a broker's file.
pub fn registry() -> Arc<Registry> {
    Arc::new(Registry::of(EnvelopePublishedV1))
}

/// Opens or creates a broker's file.
///
/// # Errors
/// As for [`Journal::open`].
pub fn open(path: &Path, limits: Limits) -> Result<Journal, OpenError> {
    Journal::open(path, registry(), limits)
}
