//! The sample's business: work logs and posters.
//!
//! Invariant: each decision is pure; it takes the aggregate as it stands, and gives the aggregate
//! as it will stand together with the one event to append. The version grows by one each time and
//! is the event's place in the aggregate's order.

mod poster;
mod text;
mod work_log;

pub use poster::{Poster, PublishPoster};
pub use text::{ControlCharacter, OneLine};
pub use work_log::{CompleteWorkLog, Completion, ReserveWorkLog, WorkLog, WorkLogState};

use domain_core::identity::{AggregateSequence, IdentityError};

/// What one decision leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<A, E> {
    /// The aggregate to save.
    pub aggregate: A,
    /// The payload of the event to append.
    pub event: E,
}

/// Why the business refuses a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}")]
pub struct RuleBroken {
    /// JSON pointer to the command's field that decides.
    pub pointer: &'static str,
    /// The broken rule; holds no value of the command.
    pub rule: &'static str,
}

/// The version of an aggregate's first event.
pub(crate) fn first_version() -> AggregateSequence {
    AggregateSequence::new(1).expect("a valid constant")
}

fn next_version(version: Option<AggregateSequence>) -> Result<AggregateSequence, RuleBroken> {
    match version {
        None => Ok(first_version()),
        Some(version) => AggregateSequence::new(version.value() + 1).map_err(no_further_version),
    }
}

fn no_further_version(_: IdentityError) -> RuleBroken {
    RuleBroken {
        pointer: "",
        rule: "the aggregate has no further version",
    }
}
