//! Why the demo could not be run to its end.
//!
//! Invariant: a refused input line and an unaccounted event are results, not errors.

use crate::compose::ComposeError;
use crate::serve::ServeError;
use std::path::PathBuf;

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The profile runs nothing.
    #[error("the profile's expected-state is DISABLED; the demo needs an ACTIVE one")]
    Disabled,
    /// No temporary folder.
    #[error("no temporary folder can be made")]
    Folder(#[source] std::io::Error),
    /// The input file.
    #[error("the input {} cannot be read", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The input broke off.
    #[error("the input broke off")]
    Read(#[source] portfolio::input::ReadError),
    /// The profile could not be composed.
    #[error("the profile could not be started")]
    Compose(#[from] ComposeError),
    /// The data folder does not fit the profile.
    #[error("the data folder cannot be used")]
    Folders(#[from] ServeError),
    /// The business tables did not answer.
    #[error("the sample's tables did not answer")]
    Business(#[source] application_core::Cause),
    /// The outbox could not be read.
    #[error("the outbox could not be read")]
    Query(#[source] application_core::ports::QueryError),
    /// A command failed for a reason that is not the line's.
    #[error("line {line} could not be executed")]
    Execute {
        /// The line.
        line: u64,
        /// Why.
        #[source]
        source: application_core::Cause,
    },
    /// A record could not be consumed.
    #[error("a record could not be consumed")]
    Consume(#[source] application_core::usecase::ConsumeError),
    /// The broker could not be read.
    #[error("the broker could not be read")]
    Broker(#[source] application_core::Cause),
    /// Standard output.
    #[error("the summary cannot be printed")]
    Output(#[source] std::io::Error),
}
