//! The durable claim fence: what no worker may claim, whoever it is.
//!
//! Invariant: once a fence is raised no later Tx B claims what it covers, and none that was under
//! way is still uncommitted; live claims end by outcome or lapse (requirement 004 §18.6).

use super::OperatorAct;
use crate::Cause;
use domain_core::hashing::PartitionKey;
use domain_core::identity::{EventId, LogicalDestinationId};

/// What a fence covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FenceScope {
    /// Every delivery.
    Everything,
    /// One destination.
    Destination(LogicalDestinationId),
    /// One ordering scope.
    OrderingScope(PartitionKey),
    /// One event.
    Event(EventId),
}

impl FenceScope {
    /// The stable name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Everything => "EVERYTHING",
            Self::Destination(_) => "DESTINATION",
            Self::OrderingScope(_) => "ORDERING_SCOPE",
            Self::Event(_) => "EVENT",
        }
    }

    /// What of that kind; empty for everything.
    pub fn subject(&self) -> &str {
        match self {
            Self::Everything => "",
            Self::Destination(destination) => destination.as_str(),
            Self::OrderingScope(key) => key.as_str(),
            Self::Event(event) => event.as_str(),
        }
    }
}

/// What became of a change to the fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceOutcome {
    /// The fence stands, or is gone, as asked; and this is audited.
    Changed,
    /// It was so already.
    Unchanged,
    /// As many fences stand as a store keeps; raise a wider one.
    Full {
        /// How many that is.
        maximum: u32,
    },
}

/// Why the fences could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// Nothing was changed.
    #[error("the claim fence cannot be reached")]
    Unavailable(#[source] Cause),
    /// It may have been changed; doing it again is harmless.
    #[error("whether the claim fence was changed is unknown")]
    OutcomeUnknown(#[source] Cause),
}

/// Raises and lifts claim fences.
#[async_trait::async_trait]
pub trait ClaimFencePort: Send + Sync {
    /// Raises a fence, after every Tx B that is under way.
    ///
    /// # Errors
    /// [`FenceError`].
    async fn raise(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError>;

    /// Lifts a fence.
    ///
    /// # Errors
    /// [`FenceError`].
    async fn lift(&self, scope: &FenceScope, act: &OperatorAct)
    -> Result<FenceOutcome, FenceError>;

    /// The fences that stand, in order.
    ///
    /// # Errors
    /// [`FenceError`].
    async fn standing(&self) -> Result<Vec<FenceScope>, FenceError>;
}
