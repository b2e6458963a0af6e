//! The running part: how this process stands now.
//!
//! Invariant: ACTIVE_READY means that there is no reason against it; a process under qualification
//! always has one (requirement 004 §§10.5, 21.2).

use super::CompiledDescriptor;
use crate::compose::{ProducerStanding, ProducerView};
use crate::runtime::Readiness;
use application_core::ports::EpochRecord;
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::TransactionResourceId;
use serde::Serialize;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Both parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    #[serde(flatten)]
    pub compiled: CompiledDescriptor,
    /// How it stands.
    pub running: RunningDescriptor,
}

/// The running part of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningDescriptor {
    /// `STARTING`, `ACTIVE_NOT_READY` or `ACTIVE_READY`.
    pub runtime_state: &'static str,
    /// Why it is not ready.
    pub reasons: Vec<&'static str>,
    /// The producer generation at work.
    pub producer_generation: Option<String>,
    /// The store's own id.
    pub transaction_resource_id: Option<String>,
    /// The store's ACTIVE epoch, as it was last read.
    pub publication_epoch: Option<i64>,
    /// Who publishes it.
    pub dispatch_authority: Option<&'static str>,
}

impl RunningDescriptor {
    /// Whether the process does its work.
    pub fn is_ready(&self) -> bool {
        self.runtime_state == "ACTIVE_READY"
    }
}

/// What a process tells of itself while it starts, runs and stops.
#[derive(Default)]
pub struct RuntimeStatus {
    qualifies_only: bool,
    resource: OnceLock<TransactionResourceId>,
    producer: OnceLock<ProducerView>,
    readiness: OnceLock<Readiness>,
    stopping: OnceLock<()>,
    epoch: Mutex<Option<EpochRecord>>,
}

impl RuntimeStatus {
    /// Nothing is open yet.
    pub fn new(qualifies_only: bool) -> Self {
        Self {
            qualifies_only,
            ..Self::default()
        }
    }

    /// The store is open.
    pub fn store_opened(&self, resource: TransactionResourceId) {
        // Once a process; a second call would say the same.
        let _ = self.resource.set(resource);
    }

    /// The producer is there, ready or not.
    pub fn producer_opened(&self, producer: ProducerView) {
        let _ = self.producer.set(producer);
    }

    /// The relay runs.
    pub fn started(&self, readiness: Readiness) {
        let _ = self.readiness.set(readiness);
    }

    /// The relay claims nothing any more.
    pub fn stopping(&self) {
        let _ = self.stopping.set(());
    }

    /// The store's ACTIVE epoch, or that there is none.
    pub fn epoch_is(&self, epoch: Option<EpochRecord>) {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
    }

    /// How it stands now.
    pub fn now(&self) -> RunningDescriptor {
        let producer = self.producer.get().map(ProducerView::standing);
        let epoch = self
            .epoch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let reasons = self.reasons(producer.as_ref(), epoch.as_ref());
        RunningDescriptor {
            runtime_state: match (self.readiness.get(), reasons.is_empty()) {
                (None, _) => "STARTING",
                (Some(_), true) => "ACTIVE_READY",
                (Some(_), false) => "ACTIVE_NOT_READY",
            },
            reasons,
            producer_generation: producer
                .and_then(|producer| producer.generation)
                .map(|generation| generation.to_string()),
            transaction_resource_id: self.resource.get().map(ToString::to_string),
            publication_epoch: epoch.as_ref().map(|record| record.epoch.value()),
            dispatch_authority: epoch.as_ref().map(|record| record.authority.as_str()),
        }
    }

    fn reasons(
        &self,
        producer: Option<&ProducerStanding>,
        epoch: Option<&EpochRecord>,
    ) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        if self.qualifies_only {
            reasons.push("qualification-only");
        }
        if self.stopping.get().is_some() {
            reasons.push("stopping");
        }
        reasons.extend(producer.and_then(|producer| producer.reason));
        if let Some(readiness) = self.readiness.get() {
            if epoch.is_none_or(|record| record.authority != DispatchAuthority::PollingV2) {
                reasons.push("epoch-not-polled");
            }
            reasons.extend(
                readiness
                    .reasons()
                    .into_iter()
                    .map(|reason| reason.as_str()),
            );
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ReadinessReason;
    use domain_core::authority::EpochState;
    use domain_core::identity::{PublicationEpoch, RowVersion};

    fn epoch(authority: DispatchAuthority) -> Option<EpochRecord> {
        Some(EpochRecord {
            epoch: PublicationEpoch::new(3).expect("epoch"),
            authority,
            state: EpochState::Active,
            row_version: RowVersion::new(1).expect("version"),
        })
    }

    #[test]
    fn ready_means_that_no_reason_stands() {
        let status = RuntimeStatus::new(false);
        assert_eq!(status.now().runtime_state, "STARTING");
        status.epoch_is(epoch(DispatchAuthority::PollingV2));
        let readiness = Readiness::default();
        status.started(readiness.clone());
        assert!(status.now().is_ready());
        assert_eq!(status.now().publication_epoch, Some(3));
        readiness.set(ReadinessReason::StoreUnavailable, true);
        assert_eq!(status.now().reasons, ["store-unavailable"]);
        assert_eq!(status.now().runtime_state, "ACTIVE_NOT_READY");
        readiness.set(ReadinessReason::StoreUnavailable, false);
        status.epoch_is(epoch(DispatchAuthority::Cdc));
        assert_eq!(status.now().reasons, ["epoch-not-polled"]);
        status.epoch_is(epoch(DispatchAuthority::PollingV2));
        assert!(status.now().is_ready());
        status.stopping();
        assert_eq!(status.now().reasons, ["stopping"]);
    }

    #[test]
    fn what_is_under_qualification_is_never_ready() {
        let status = RuntimeStatus::new(true);
        status.epoch_is(epoch(DispatchAuthority::PollingV2));
        status.started(Readiness::default());
        assert!(!status.now().is_ready());
        assert_eq!(status.now().reasons, ["qualification-only"]);
    }
}
