//! Which revisions of which destinations this process serves.
//!
//! Invariant: each destination has exactly one revision that is current for appends; a send uses
//! the revision stored with the event (requirement 004 §13.6). Topics and clusters stay with the
//! provider's adapter.

use domain_core::identity::{DestinationBindingRevision, LogicalDestinationId};
use std::collections::BTreeMap;

/// One revision of one destination, without its physical side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationBinding {
    /// The destination.
    pub destination: LogicalDestinationId,
    /// The revision.
    pub revision: DestinationBindingRevision,
    /// Bytes that one record may have in all: key, value, headers and overhead.
    pub maximum_record_bytes: u32,
    /// Bytes that one envelope may have.
    pub maximum_envelope_bytes: u32,
    /// Whether appends take this revision.
    pub current: bool,
}

/// Why bindings do not make a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindingSetError {
    /// A revision id names two bindings.
    #[error("binding revision {0} is used twice")]
    DuplicateRevision(DestinationBindingRevision),
    /// No revision of the destination is current.
    #[error("destination {0} has no current binding revision")]
    NoCurrent(LogicalDestinationId),
    /// Two revisions of the destination are current.
    #[error("destination {destination} has two current binding revisions: {first} and {second}")]
    TwoCurrent {
        /// The destination.
        destination: LogicalDestinationId,
        /// The first one found.
        first: DestinationBindingRevision,
        /// Another one.
        second: DestinationBindingRevision,
    },
}

/// All bindings of one process.
#[derive(Debug, Clone, Default)]
pub struct BindingSet {
    bindings: Vec<DestinationBinding>,
}

impl BindingSet {
    /// Checks uniqueness and currency.
    ///
    /// # Errors
    /// [`BindingSetError`] with the names.
    pub fn build(bindings: Vec<DestinationBinding>) -> Result<Self, BindingSetError> {
        let mut current: BTreeMap<&LogicalDestinationId, Option<&DestinationBindingRevision>> =
            BTreeMap::new();
        let mut revisions = std::collections::BTreeSet::new();
        for binding in &bindings {
            if !revisions.insert(&binding.revision) {
                return Err(BindingSetError::DuplicateRevision(binding.revision.clone()));
            }
            let entry = current.entry(&binding.destination).or_default();
            if binding.current {
                if let Some(first) = entry {
                    return Err(BindingSetError::TwoCurrent {
                        destination: binding.destination.clone(),
                        first: (*first).clone(),
                        second: binding.revision.clone(),
                    });
                }
                *entry = Some(&binding.revision);
            }
        }
        if let Some((destination, _)) = current.iter().find(|(_, revision)| revision.is_none()) {
            return Err(BindingSetError::NoCurrent((*destination).clone()));
        }
        Ok(Self { bindings })
    }

    /// The revision that appends to a destination take.
    pub fn current(&self, destination: &LogicalDestinationId) -> Option<&DestinationBinding> {
        self.bindings
            .iter()
            .find(|binding| binding.current && binding.destination == *destination)
    }

    /// Every binding.
    pub fn iter(&self) -> impl Iterator<Item = &DestinationBinding> {
        self.bindings.iter()
    }

    /// The bindings of one destination.
    pub fn of<'a>(
        &'a self,
        destination: &'a LogicalDestinationId,
    ) -> impl Iterator<Item = &'a DestinationBinding> {
        self.bindings
            .iter()
            .filter(move |binding| binding.destination == *destination)
    }
}
