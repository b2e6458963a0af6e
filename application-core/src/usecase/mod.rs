//! The use cases, one a file.
//!
//! Invariant: a use case decides purely and acts through ports; it spawns nothing and reads no
//! clock of its own.

mod append_event;
mod attempt;
mod consume_event;
mod publish_best_effort;
mod record_late_observations;
mod relay_one_record;
mod relay_window;
mod rotate_producer;
mod verify_stored_record;

pub use append_event::{AppendEventError, IntegrationEventAppender};
pub use consume_event::{
    ConsumeError, ConsumeEvent, ConsumeOutcome, RefusedRecord, TransportHeaders,
};
pub use publish_best_effort::{BestEffortError, PublishBestEffort};
pub use record_late_observations::{LateDrain, LateDrainError, RecordLateObservations};
pub use relay_one_record::{RelayError, RelayOneRecord, RelaySettings, RelayTurn};
pub use relay_window::{RelayWindow, Supply, WindowError, WindowPorts, WindowSettings, WindowTurn};
pub use rotate_producer::{RotateProducer, RotationPorts, RotationSettings};
pub use verify_stored_record::{RecordMismatch, verify_stored_record};
