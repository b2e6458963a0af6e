//! Telling the outside what the relay did, after it was persisted.
//!
//! Invariant: a report follows its transition and can fail without changing it (requirement 004
//! §15.5).

use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{
    ContractId, DeliveryGeneration, EventId, LogicalDestinationId, PublicationAttemptId,
};
use domain_core::publication::{AcceptanceCertainty, PublicationFailure};

/// One persisted transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayReport {
    /// The event.
    pub event_id: EventId,
    /// Its generation.
    pub generation: DeliveryGeneration,
    /// The contract, from the closed catalog.
    pub contract_id: ContractId,
    /// The destination, from the closed catalog.
    pub destination: LogicalDestinationId,
    /// The attempt.
    pub attempt_id: PublicationAttemptId,
    /// Attempts of this generation so far.
    pub attempt_count: u32,
    /// Where the delivery stands now.
    pub state: DeliveryStateName,
    /// What is known about acceptance.
    pub certainty: AcceptanceCertainty,
    /// Why it failed, where it did.
    pub failure: Option<PublicationFailure>,
    /// What the row and its document disagreed about, where they did; a name, never a value.
    pub mismatch: Option<&'static str>,
}

/// A report was not taken. It is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the report was not taken")]
pub struct ReportError;

/// Takes reports.
pub trait RelayReporter: Send + Sync {
    /// Takes one report without blocking.
    ///
    /// # Errors
    /// [`ReportError`]; the caller goes on.
    fn report(&self, report: &RelayReport) -> Result<(), ReportError>;
}
