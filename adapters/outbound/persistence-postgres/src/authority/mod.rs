//! Who may write and who may publish, for an operator.
//!
//! Invariant: each change is one transaction together with its audit row, takes its locks in the
//! order write admission, epoch, deliveries, and waits at most as long as its caller says.

mod admission;
mod audit;
mod epoch;

pub(crate) use audit::{Action, audit};

use crate::errors::{Abort, DatabaseFault};
use crate::session::Sessions;
use application_core::ports::{
    ActivationOutcome, AuthorityError, EpochActivation, EpochRecord, FreezeOutcome, OperatorAct,
    PublicationAuthorityPort, ResumeOutcome,
};
use domain_core::authority::{AdmissionEvent, WriteAdmission, WriteAdmissionState};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::Sha256Digest;
use std::sync::Arc;
use std::time::Duration;

type AuthorityAbort = Abort<AuthorityError>;

/// The publication epoch and the write admission of one store.
#[derive(Clone)]
pub struct PostgresAuthority {
    pub(crate) sessions: Arc<Sessions>,
}

fn unavailable(fault: DatabaseFault) -> AuthorityError {
    AuthorityError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> AuthorityError {
    AuthorityError::OutcomeUnknown(Box::new(fault))
}

fn failed(fault: impl Into<DatabaseFault>) -> AuthorityAbort {
    Abort::of(fault, unavailable)
}

#[async_trait::async_trait]
impl PublicationAuthorityPort for PostgresAuthority {
    async fn active_epoch(&self) -> Result<Option<EpochRecord>, AuthorityError> {
        self.read_active_epoch().await.map_err(unavailable)
    }

    async fn prepare_epoch(
        &self,
        authority: DispatchAuthority,
        settings: Option<Sha256Digest>,
    ) -> Result<EpochRecord, AuthorityError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.prepare_once(authority, settings.as_ref()).await {
                Ok(prepared) => return Ok(prepared),
                Err(abort) => repeats.after(abort, unavailable)?,
            }
        }
    }

    async fn activate_epoch(
        &self,
        activation: &EpochActivation,
    ) -> Result<ActivationOutcome, AuthorityError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.activate_once(activation).await {
                Ok(outcome) => return Ok(outcome),
                Err(abort) => repeats.after(abort, unavailable)?,
            }
        }
    }

    async fn write_admission(&self) -> Result<WriteAdmission, AuthorityError> {
        self.read_admission().await.map_err(unavailable)
    }

    async fn freeze(
        &self,
        generation: i64,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<FreezeOutcome, AuthorityError> {
        self.freeze_in_two(generation, wait, act).await
    }

    async fn resume(
        &self,
        generation: i64,
        act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError> {
        let frozen = WriteAdmission {
            state: WriteAdmissionState::Frozen,
            generation,
        };
        self.reopen(frozen, AdmissionEvent::Resumed, Action::Resumed, act)
            .await
    }

    async fn thaw(
        &self,
        generation: i64,
        act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError> {
        let freezing = WriteAdmission {
            state: WriteAdmissionState::Freezing,
            generation,
        };
        self.reopen(freezing, AdmissionEvent::DrainTimedOut, Action::Thawed, act)
            .await
    }
}
