//! The fake store's epochs and write admission.
//!
//! Invariant: the single writer is the wait: whoever changes one of them has no other write
//! transaction beside it.

use super::FakeStore;
use super::state::State;
use crate::ports::{
    ActivationOutcome, AuthorityError, EpochActivation, EpochRecord, FreezeOutcome, OperatorAct,
    PublicationAuthorityPort, ResumeOutcome,
};
use domain_core::authority::{AdmissionEvent, EpochState, WriteAdmission, WriteAdmissionState};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{PublicationEpoch, RowVersion};
use std::time::Duration;

#[async_trait::async_trait]
impl PublicationAuthorityPort for FakeStore {
    async fn active_epoch(&self) -> Result<Option<EpochRecord>, AuthorityError> {
        Ok(self.state().active_epoch().cloned())
    }

    async fn prepare_epoch(
        &self,
        authority: DispatchAuthority,
        _settings: Option<Sha256Digest>,
    ) -> Result<EpochRecord, AuthorityError> {
        let mut tx = self.begin().await;
        let prepared = tx.state.prepare_epoch(authority);
        self.commit(tx);
        Ok(prepared)
    }

    async fn activate_epoch(
        &self,
        activation: &EpochActivation,
    ) -> Result<ActivationOutcome, AuthorityError> {
        let mut tx = self.begin().await;
        let active = tx.state.active_epoch().map(|epoch| epoch.epoch);
        if active != activation.expected_active {
            return Ok(ActivationOutcome::ActiveDiffers(active));
        }
        let prepared = tx.state.epochs.get(&activation.epoch).is_some_and(|epoch| {
            epoch.state == EpochState::Prepared && epoch.row_version == activation.row_version
        });
        if !prepared {
            return Ok(ActivationOutcome::NotPrepared);
        }
        tx.state.retire_active();
        tx.state.activate(activation.epoch);
        tx.state.authority_audit.push("EPOCH_ACTIVATED");
        self.commit(tx);
        Ok(ActivationOutcome::Activated)
    }

    async fn write_admission(&self) -> Result<WriteAdmission, AuthorityError> {
        Ok(self.state().admission)
    }

    async fn freeze(
        &self,
        generation: i64,
        _wait: Duration,
        _act: &OperatorAct,
    ) -> Result<FreezeOutcome, AuthorityError> {
        let open = WriteAdmission {
            state: WriteAdmissionState::Open,
            generation,
        };
        let announced = (AdmissionEvent::FreezeAnnounced, "FREEZE_ANNOUNCED");
        let freezing = match self.admit(open, announced).await {
            Ok(freezing) => freezing,
            Err(now) => return Ok(FreezeOutcome::Conflict(now)),
        };
        let drained = (AdmissionEvent::WritersDrained, "FROZEN");
        Ok(match self.admit(freezing, drained).await {
            Ok(frozen) => FreezeOutcome::Frozen(frozen),
            Err(now) => FreezeOutcome::Conflict(now),
        })
    }

    async fn resume(
        &self,
        generation: i64,
        _act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError> {
        let frozen = WriteAdmission {
            state: WriteAdmissionState::Frozen,
            generation,
        };
        let resumed = (AdmissionEvent::Resumed, "RESUMED");
        Ok(reopened(self.admit(frozen, resumed).await))
    }

    async fn thaw(
        &self,
        generation: i64,
        _act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError> {
        let freezing = WriteAdmission {
            state: WriteAdmissionState::Freezing,
            generation,
        };
        let thawed = (AdmissionEvent::DrainTimedOut, "THAWED");
        Ok(reopened(self.admit(freezing, thawed).await))
    }
}

fn reopened(changed: Result<WriteAdmission, WriteAdmission>) -> ResumeOutcome {
    match changed {
        Ok(open) => ResumeOutcome::Open(open),
        Err(now) => ResumeOutcome::Conflict(now),
    }
}

impl FakeStore {
    /// The admission after an event, or the one that is not the expected one.
    async fn admit(
        &self,
        seen: WriteAdmission,
        (event, action): (AdmissionEvent, &'static str),
    ) -> Result<WriteAdmission, WriteAdmission> {
        let mut tx = self.begin().await;
        let now = tx.state.admission;
        let next = match now.next(event) {
            Ok(next) if now == seen => next,
            _ => return Err(now),
        };
        tx.state.admission = next;
        tx.state.authority_audit.push(action);
        self.commit(tx);
        Ok(next)
    }
}

impl State {
    pub(super) fn prepare_epoch(&mut self, authority: DispatchAuthority) -> EpochRecord {
        let last = self.epochs.last_key_value();
        let number = last.map_or(1, |(epoch, _)| epoch.value() + 1);
        let prepared = EpochRecord {
            epoch: PublicationEpoch::new(number).expect("an epoch"),
            authority,
            state: EpochState::Prepared,
            row_version: RowVersion::FIRST,
        };
        self.epochs.insert(prepared.epoch, prepared.clone());
        prepared
    }

    pub(super) fn activate(&mut self, epoch: PublicationEpoch) {
        if let Some(record) = self.epochs.get_mut(&epoch) {
            write(record, EpochState::Active);
        }
    }

    pub(super) fn retire_active(&mut self) {
        for record in self.epochs.values_mut() {
            if record.state == EpochState::Active {
                write(record, EpochState::Retired);
            }
        }
    }
}

fn write(record: &mut EpochRecord, state: EpochState) {
    record.state = state;
    record.row_version = RowVersion::new(record.row_version.value() + 1).expect("a row version");
}
