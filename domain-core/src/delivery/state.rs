//! The states of a delivery, each with its own data.
//!
//! Invariant: `EXHAUSTED` and `HOLD` end automation, not the question: they stay unresolved and
//! keep blocking their ordering scope (requirement 004 §18.4).

use crate::identity::{ClaimToken, WorkerId};
use crate::instant::DatabaseInstant;

/// One worker's right to act on a delivery until a point of database time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The secret that fences the claim.
    pub token: ClaimToken,
    /// Who holds it.
    pub owner: WorkerId,
    /// When it lapses, by the database clock.
    pub until: DatabaseInstant,
}

/// Where a delivery generation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// Waiting for its first claim.
    Ready,
    /// Held by one worker.
    Claimed(Claim),
    /// Waiting for its next claim.
    RetryWait {
        /// The earliest next claim, by the database clock.
        due: DatabaseInstant,
    },
    /// The broker's acknowledgement is recorded.
    DeliveryRecorded,
    /// The automatic budget ended without a recorded acknowledgement.
    Exhausted,
    /// Only an operator may go on.
    Hold,
    /// An operator released the scope without a publication.
    Skipped,
    /// A compensating event took its place.
    Compensated,
    /// Migrated from a system that saw no acknowledgement.
    LegacyRecordedUnverified,
    /// The same, reconciled and approved.
    LegacyAcceptedUnverified,
}

/// A state without its data, under its stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryStateName {
    /// `READY`
    Ready,
    /// `CLAIMED`
    Claimed,
    /// `RETRY_WAIT`
    RetryWait,
    /// `DELIVERY_RECORDED`
    DeliveryRecorded,
    /// `EXHAUSTED`
    Exhausted,
    /// `HOLD`
    Hold,
    /// `SKIPPED`
    Skipped,
    /// `COMPENSATED`
    Compensated,
    /// `LEGACY_RECORDED_UNVERIFIED`
    LegacyRecordedUnverified,
    /// `LEGACY_ACCEPTED_UNVERIFIED`
    LegacyAcceptedUnverified,
}

impl DeliveryState {
    /// The state's stable name.
    pub fn name(&self) -> DeliveryStateName {
        match self {
            Self::Ready => DeliveryStateName::Ready,
            Self::Claimed(_) => DeliveryStateName::Claimed,
            Self::RetryWait { .. } => DeliveryStateName::RetryWait,
            Self::DeliveryRecorded => DeliveryStateName::DeliveryRecorded,
            Self::Exhausted => DeliveryStateName::Exhausted,
            Self::Hold => DeliveryStateName::Hold,
            Self::Skipped => DeliveryStateName::Skipped,
            Self::Compensated => DeliveryStateName::Compensated,
            Self::LegacyRecordedUnverified => DeliveryStateName::LegacyRecordedUnverified,
            Self::LegacyAcceptedUnverified => DeliveryStateName::LegacyAcceptedUnverified,
        }
    }
}

impl DeliveryStateName {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Ready,
        Self::Claimed,
        Self::RetryWait,
        Self::DeliveryRecorded,
        Self::Exhausted,
        Self::Hold,
        Self::Skipped,
        Self::Compensated,
        Self::LegacyRecordedUnverified,
        Self::LegacyAcceptedUnverified,
    ];

    /// The stable name, as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "READY",
            Self::Claimed => "CLAIMED",
            Self::RetryWait => "RETRY_WAIT",
            Self::DeliveryRecorded => "DELIVERY_RECORDED",
            Self::Exhausted => "EXHAUSTED",
            Self::Hold => "HOLD",
            Self::Skipped => "SKIPPED",
            Self::Compensated => "COMPENSATED",
            Self::LegacyRecordedUnverified => "LEGACY_RECORDED_UNVERIFIED",
            Self::LegacyAcceptedUnverified => "LEGACY_ACCEPTED_UNVERIFIED",
        }
    }

    /// The state of a stable name, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether later events of the same ordering scope may go ahead.
    pub fn releases_scope(self) -> bool {
        matches!(
            self,
            Self::DeliveryRecorded
                | Self::Skipped
                | Self::Compensated
                | Self::LegacyAcceptedUnverified
        )
    }
}

/// Whether a generation is the one that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// `CURRENT`: exactly one generation of an event.
    Current,
    /// `SUPERSEDED`: an audited requeue took its place.
    Superseded,
}

impl Authority {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "CURRENT",
            Self::Superseded => "SUPERSEDED",
        }
    }
}

/// Who may publish the events of an epoch (requirement 004 §27.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchAuthority {
    /// `LEGACY_POLLING`
    LegacyPolling,
    /// `POLLING_V2`
    PollingV2,
    /// `CDC`
    Cdc,
}

impl DispatchAuthority {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LegacyPolling => "LEGACY_POLLING",
            Self::PollingV2 => "POLLING_V2",
            Self::Cdc => "CDC",
        }
    }

    /// The authority of a stable name, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::LegacyPolling, Self::PollingV2, Self::Cdc]
            .into_iter()
            .find(|authority| authority.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_only_resolved_states_release() {
        let releasing: Vec<_> = DeliveryStateName::ALL
            .into_iter()
            .filter(|state| {
                assert_eq!(DeliveryStateName::from_name(state.as_str()), Some(*state));
                state.releases_scope()
            })
            .map(DeliveryStateName::as_str)
            .collect();
        assert_eq!(
            releasing,
            [
                "DELIVERY_RECORDED",
                "SKIPPED",
                "COMPENSATED",
                "LEGACY_ACCEPTED_UNVERIFIED"
            ]
        );
    }
}
