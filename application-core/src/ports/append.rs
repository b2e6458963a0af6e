//! Appending an event inside the caller's write transaction.
//!
//! Invariant: after an error the caller's transaction cannot commit (requirement 004 §§12.4,
//! 15.1).

use super::WriteTransaction;
use crate::Cause;
use crate::event::ValidatedIntegrationEvent;
use domain_core::delivery::{DispatchAuthority, PublicationWindow, WindowError};
use domain_core::identity::{EventId, PublicationEpoch, TransactionResourceId};
use std::future::Future;
use std::time::Duration;

/// What a deployment adds to the first delivery of each event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendPolicy {
    maximum_age: Duration,
    dispatch_profile_id: String,
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendPolicyError {
    /// The publication age cannot bound anything.
    #[error("the maximum automatic publication age cannot be used")]
    Age(#[source] WindowError),
    /// The profile's id is outside its grammar.
    #[error("dispatch profile id is not 1 to 96 bytes of [A-Za-z0-9][A-Za-z0-9._:-]*")]
    Profile,
}

impl AppendPolicy {
    /// `maximum_age` is the profile's maximum automatic publication age, counted from the event's
    /// creation (requirement 004 §18.9); `dispatch_profile_id` has 1–96 bytes of
    /// `[A-Za-z0-9][A-Za-z0-9._:-]*`.
    ///
    /// # Errors
    /// [`AppendPolicyError`] with the rule.
    pub fn new(
        maximum_age: Duration,
        dispatch_profile_id: impl Into<String>,
    ) -> Result<Self, AppendPolicyError> {
        PublicationWindow::check_maximum_age(maximum_age).map_err(AppendPolicyError::Age)?;
        let dispatch_profile_id = dispatch_profile_id.into();
        let bytes = dispatch_profile_id.as_bytes();
        let inner =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
        let grammatical = (1..=96).contains(&bytes.len())
            && bytes[0].is_ascii_alphanumeric()
            && bytes.iter().all(inner);
        if !grammatical {
            return Err(AppendPolicyError::Profile);
        }
        Ok(Self {
            maximum_age,
            dispatch_profile_id,
        })
    }

    /// The profile's id.
    pub fn dispatch_profile_id(&self) -> &str {
        &self.dispatch_profile_id
    }

    /// How long after its creation an event's first generation may be published: the sooner of
    /// the profile's age and the event's own horizon, 3650 days at most.
    pub fn initial_age(&self, event: &ValidatedIntegrationEvent) -> Duration {
        self.maximum_age.min(event.requeue_horizon())
    }
}

/// What the store added to the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendReceipt {
    /// The epoch that was active.
    pub epoch: PublicationEpoch,
    /// Who may publish the event.
    pub authority: DispatchAuthority,
    /// The store's own identity, copied in the same transaction.
    pub resource: TransactionResourceId,
}

/// Why an event was not appended. The caller's transaction is rollback-only afterwards.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The event id is already there, with the same or another document.
    #[error("event {event_id} is already in the outbox")]
    DuplicateEvent {
        /// The event.
        event_id: EventId,
    },
    /// Another event has the same place in the aggregate's order.
    #[error("event {event_id} takes a place in its aggregate's order that is already taken")]
    OrderTaken {
        /// The event.
        event_id: EventId,
    },
    /// No publication epoch is active; try again later.
    #[error("no publication epoch is active; the append may be tried again")]
    NoActiveEpoch,
    /// The database aborted the transaction to keep it serializable; try the whole again.
    #[error("the database asked for the transaction to be tried again")]
    TryAgain(#[source] Cause),
    /// The database refused a value.
    #[error("the outbox refused event {event_id}")]
    Refused {
        /// The event.
        event_id: EventId,
        /// The database's reason.
        #[source]
        source: Cause,
    },
    /// The database cannot be reached.
    #[error("the outbox cannot be reached")]
    Unavailable(#[source] Cause),
}

/// Appends to the outbox of the store that `Tx` writes to.
pub trait OutboxAppendPort<Tx: WriteTransaction>: Send + Sync {
    /// Inserts the event and, in a polling epoch, its first delivery.
    ///
    /// # Errors
    /// [`AppendError`]; MUST leave `tx` rollback-only.
    fn append<'t>(
        &'t self,
        tx: &'t mut Tx,
        event: &'t ValidatedIntegrationEvent,
    ) -> impl Future<Output = Result<AppendReceipt, AppendError>> + Send + 't;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_a_profile_and_a_finite_age() {
        let hour = Duration::from_secs(3600);
        assert!(AppendPolicy::new(hour, "polling-claim.v1").is_ok());
        assert!(AppendPolicy::new(hour, "x".repeat(96)).is_ok());
        for profile in ["", "-p", "a b", "é", &"x".repeat(97)] {
            assert_eq!(
                AppendPolicy::new(hour, profile),
                Err(AppendPolicyError::Profile),
                "{profile}"
            );
        }
        for age in [Duration::ZERO, Duration::MAX] {
            assert!(matches!(
                AppendPolicy::new(age, "p"),
                Err(AppendPolicyError::Age(_))
            ));
        }
    }
}
