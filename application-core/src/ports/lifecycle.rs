//! The producer's generations: the primitives of their replacement, and bounded facts.
//!
//! Invariant: an implementation decides nothing about deliveries. It never has two generations that
//! can send, and says what it left open; whoever calls decides what becomes of that (requirement 004
//! §§16.1, 16.10).

use crate::Cause;
use crate::rotation::Material;
use domain_core::identity::ProducerGeneration;
use domain_core::publication::FailureClass;
use std::time::Duration;

/// What a generation was when it was told to pause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PausedGeneration {
    /// Which one; `None` when none was at work.
    pub generation: Option<ProducerGeneration>,
    /// Whether the broker had acknowledged any record of it.
    pub had_acknowledged: bool,
}

/// What a drain left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainFact {
    /// Records that the client has not reported on.
    pub unresolved: usize,
    /// Permits that are out: attempts whose Tx C has not ended.
    pub permits_out: usize,
}

/// Why a primitive did not do its part.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// The broker stored a record on another topic than the compiled one.
    #[error("the producer is halted by a misroute")]
    Misrouted,
    /// The process is stopping.
    #[error("the process is stopping")]
    ProcessStops,
    /// It failed; another try may not.
    #[error("the producer generation could not be replaced ({class})")]
    Failed {
        /// Why, in the provider's stead.
        class: FailureClass,
        /// The cause, without secrets and addresses.
        #[source]
        source: Cause,
    },
}

/// Secrets and settings of the producer.
#[async_trait::async_trait]
pub trait ProducerMaterialPort: Send + Sync {
    /// Reads and compiles them as they are now, for the next [`ProducerLifecyclePort::create`].
    ///
    /// # Errors
    /// [`LifecycleError`]; what was read before stays.
    async fn resolve(&self) -> Result<(), LifecycleError>;
}

/// Replaces generations. Every method MAY be called again after an error, and MUST be bounded.
#[async_trait::async_trait]
pub trait ProducerLifecyclePort: Send + Sync {
    /// Gives no further permit of the generation at work. Attempts under way go on.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn pause(&self) -> Result<PausedGeneration, LifecycleError>;

    /// Waits until every permit is back and the client is empty, at most this long.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn drain(&self, limit: Duration) -> Result<DrainFact, LifecycleError>;

    /// Ends every attempt that still waits: `INDETERMINATE` with stage `SHUTDOWN` and class
    /// `CLIENT_CLOSED` when the client has its record, rejected when it was not handed over. Waits
    /// until the permits are back, at most this long; called again it waits again.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn abandon(&self, limit: Duration) -> Result<DrainFact, LifecycleError>;

    /// Ends the paused generation's client; tells whether it has ended within this time. From the
    /// first call on nothing is handed over any more.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn close(&self, limit: Duration) -> Result<bool, LifecycleError>;

    /// Makes a generation of the material. It admits nothing.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn create(&self, material: Material) -> Result<ProducerGeneration, LifecycleError>;

    /// Looks at brokers and topics. After an error the generation that was made is gone.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn attest(&self) -> Result<(), LifecycleError>;

    /// Puts the attested generation to work. MUST refuse while a permit of an earlier one is out.
    ///
    /// # Errors
    /// [`LifecycleError`].
    async fn resume(&self) -> Result<ProducerGeneration, LifecycleError>;
}
