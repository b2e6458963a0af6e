//! What a publication attempt may turn out to be, and what the relay does about it.
//!
//! Invariant: whether the broker accepted and whether to try again are two independent answers
//! (requirement 004 §15.4). What cannot be proved unaccepted is `INDETERMINATE`.

mod decision;
mod outcome;
mod retry;

pub use decision::{AttemptBudget, RelayDecision, decide};
pub use outcome::{
    AcceptanceCertainty, FailureClass, FailureStage, ProviderRecordReference, PublicationFailure,
    PublicationOutcome, PublicationReceipt, RetryDisposition,
};
pub use retry::{RetryPolicy, RetryPolicyError};
