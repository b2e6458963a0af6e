//! What a process is and how it stands, for people and tools (requirement 004 §21.8).
//!
//! Invariant: no secret, no reference to one, no address and no payload is ever in a descriptor,
//! and a topic that is marked sensitive is there by its alias alone.

mod compiled;
mod epoch;
mod local;
mod running;
mod text;

pub use compiled::{CompiledDescriptor, DescribedCard, DescribedDestination};
pub use local::{DescribeError, running_descriptor};
pub use running::{Descriptor, RunningDescriptor, RuntimeStatus};
pub use text::as_text;

pub(crate) use epoch::watch_epoch;
pub(crate) use local::serve_locally;
