//! The publication epoch and the write admission.
//!
//! Invariant: each change is one transaction of the single writer, whichever process it is in, so no
//! append, claim or business write is under way beside it: what a freeze and an activation wait for
//! is the write lock.

use crate::control::{SqliteControl, Trouble, audit, commit};
use crate::row::{self, CorruptColumn};
use crate::writer::SqliteWriteTransaction;
use application_core::ports::{
    ActivationOutcome, AuthorityError, EpochActivation, EpochRecord, FreezeOutcome, OperatorAct,
    PublicationAuthorityPort, ResumeOutcome,
};
use domain_core::authority::{AdmissionEvent, EpochState, WriteAdmission, WriteAdmissionState};
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{PublicationEpoch, RowVersion};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use std::time::{Duration, Instant};

/// The second transaction of a freeze tries at least this long, since the first one came through.
const LEAST_WAIT: Duration = Duration::from_millis(10);

fn failed(trouble: Trouble) -> AuthorityError {
    match trouble {
        Trouble::Unavailable(cause) => AuthorityError::Unavailable(cause),
        Trouble::Unknown(cause) => AuthorityError::OutcomeUnknown(cause),
    }
}

impl From<CorruptColumn> for Trouble {
    fn from(column: CorruptColumn) -> Self {
        Self::Unavailable(Box::new(column))
    }
}

/// The write admission, by what `connection` sees.
pub(crate) async fn admission(
    connection: &mut SqliteConnection,
) -> Result<WriteAdmission, sqlx::Error> {
    let row = sqlx::query(include_str!("sql/select_admission.sql"))
        .fetch_one(connection)
        .await?;
    let state: String = row.try_get("state")?;
    Ok(WriteAdmission {
        state: WriteAdmissionState::from_name(&state)
            .ok_or_else(|| sqlx::Error::ColumnNotFound("state".to_owned()))?,
        generation: row.try_get("generation")?,
    })
}

/// How a compare-and-set on the admission ended.
enum Change {
    Moved(WriteAdmission),
    Differs(WriteAdmission),
}

#[async_trait::async_trait]
impl PublicationAuthorityPort for SqliteControl {
    async fn active_epoch(&self) -> Result<Option<EpochRecord>, AuthorityError> {
        let row = sqlx::query(include_str!("sql/select_active_epoch.sql"))
            .fetch_optional(&self.reads)
            .await
            .map_err(|error| failed(error.into()))?;
        row.as_ref()
            .map(epoch)
            .transpose()
            .map_err(|column| failed(column.into()))
    }

    async fn prepare_epoch(
        &self,
        authority: DispatchAuthority,
        settings: Option<Sha256Digest>,
    ) -> Result<EpochRecord, AuthorityError> {
        self.prepare_once(authority, settings).await.map_err(failed)
    }

    async fn activate_epoch(
        &self,
        activation: &EpochActivation,
    ) -> Result<ActivationOutcome, AuthorityError> {
        self.activate_once(activation).await.map_err(failed)
    }

    async fn write_admission(&self) -> Result<WriteAdmission, AuthorityError> {
        let mut connection = self
            .reads
            .acquire()
            .await
            .map_err(|error| failed(error.into()))?;
        admission(&mut connection)
            .await
            .map_err(|error| failed(error.into()))
    }

    /// Announcing waits for the writer under way as well. When that takes longer than `wait`,
    /// nothing was announced and the answer has the admission as it stands.
    async fn freeze(
        &self,
        generation: i64,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<FreezeOutcome, AuthorityError> {
        self.freeze_once(generation, wait, act)
            .await
            .map_err(failed)
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
        self.reopen(frozen, AdmissionEvent::Resumed, "RESUMED", act)
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
        self.reopen(freezing, AdmissionEvent::DrainTimedOut, "THAWED", act)
            .await
    }
}

impl SqliteControl {
    async fn freeze_once(
        &self,
        generation: i64,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<FreezeOutcome, Trouble> {
        let begun = Instant::now();
        let open = WriteAdmission {
            state: WriteAdmissionState::Open,
            generation,
        };
        let Some(tx) = self.begin_within(wait).await? else {
            let mut connection = self.reads.acquire().await?;
            let now = admission(&mut connection).await?;
            return Ok(FreezeOutcome::TimedOut(now));
        };
        let announced = change(
            tx,
            open,
            AdmissionEvent::FreezeAnnounced,
            "FREEZE_ANNOUNCED",
            act,
        );
        let freezing = match announced.await? {
            Change::Moved(freezing) => freezing,
            Change::Differs(now) => return Ok(FreezeOutcome::Conflict(now)),
        };
        // Whoever has the write lock now began after the announcement and is not admitted, or began
        // in a transaction that no freeze holds back. The next lock is proof that all earlier ended.
        let left = wait.saturating_sub(begun.elapsed());
        let Some(tx) = self.begin_within(left.max(LEAST_WAIT)).await? else {
            let tx = self.begin().await?;
            let event = AdmissionEvent::DrainTimedOut;
            return Ok(
                match change(tx, freezing, event, "FREEZE_TIMED_OUT", act).await? {
                    Change::Moved(open) => FreezeOutcome::TimedOut(open),
                    Change::Differs(now) => FreezeOutcome::Conflict(now),
                },
            );
        };
        Ok(
            match change(tx, freezing, AdmissionEvent::WritersDrained, "FROZEN", act).await? {
                Change::Moved(frozen) => FreezeOutcome::Frozen(frozen),
                Change::Differs(now) => FreezeOutcome::Conflict(now),
            },
        )
    }

    async fn reopen(
        &self,
        seen: WriteAdmission,
        event: AdmissionEvent,
        action: &'static str,
        act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError> {
        let tx = self.begin().await.map_err(failed)?;
        Ok(
            match change(tx, seen, event, action, act).await.map_err(failed)? {
                Change::Moved(open) => ResumeOutcome::Open(open),
                Change::Differs(now) => ResumeOutcome::Conflict(now),
            },
        )
    }

    async fn prepare_once(
        &self,
        authority: DispatchAuthority,
        settings: Option<Sha256Digest>,
    ) -> Result<EpochRecord, Trouble> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(include_str!("sql/insert_epoch.sql"))
            .bind(authority.as_str())
            .bind(settings.as_ref().map(|digest| &digest.as_bytes()[..]))
            .fetch_one(tx.connection())
            .await?;
        let prepared = epoch(&row)?;
        commit(tx).await?;
        Ok(prepared)
    }

    async fn activate_once(
        &self,
        activation: &EpochActivation,
    ) -> Result<ActivationOutcome, Trouble> {
        let Some(mut tx) = self.begin_within(activation.wait).await? else {
            return Ok(ActivationOutcome::TimedOut);
        };
        let active = sqlx::query(include_str!("sql/select_active_epoch.sql"))
            .fetch_optional(tx.connection())
            .await?;
        let active = active.as_ref().map(epoch).transpose()?.map(|one| one.epoch);
        if active != activation.expected_active {
            tx.rollback().await;
            return Ok(ActivationOutcome::ActiveDiffers(active));
        }
        sqlx::query(include_str!("sql/retire_active_epoch.sql"))
            .execute(tx.connection())
            .await?;
        let activated = sqlx::query(include_str!("sql/activate_epoch.sql"))
            .bind(activation.epoch.value())
            .bind(activation.row_version.value())
            .bind(activation.act.operator.as_str())
            .bind(activation.approval.as_str())
            .execute(tx.connection())
            .await?;
        if activated.rows_affected() != 1 {
            tx.rollback().await;
            return Ok(ActivationOutcome::NotPrepared);
        }
        let subject = format!("epoch {}", activation.epoch.value());
        let approval = Some(activation.approval.as_str());
        audit(
            tx.connection(),
            "EPOCH_ACTIVATED",
            &subject,
            &activation.act,
            approval,
        )
        .await?;
        commit(tx).await?;
        Ok(ActivationOutcome::Activated)
    }
}

/// A compare-and-set on the admission, with its audit row.
async fn change(
    mut tx: SqliteWriteTransaction,
    seen: WriteAdmission,
    event: AdmissionEvent,
    action: &'static str,
    act: &OperatorAct,
) -> Result<Change, Trouble> {
    let now = admission(tx.connection()).await?;
    let next = match now.next(event) {
        Ok(next) if now == seen => next,
        _ => {
            tx.rollback().await;
            return Ok(Change::Differs(now));
        }
    };
    sqlx::query(include_str!("sql/move_admission.sql"))
        .bind(seen.state.as_str())
        .bind(seen.generation)
        .bind(next.state.as_str())
        .bind(next.generation)
        .execute(tx.connection())
        .await?;
    let subject = format!("generation {}", next.generation);
    audit(tx.connection(), action, &subject, act, None).await?;
    commit(tx).await?;
    Ok(Change::Moved(next))
}

fn epoch(row: &SqliteRow) -> Result<EpochRecord, CorruptColumn> {
    Ok(EpochRecord {
        epoch: row::number(row, "epoch_id", PublicationEpoch::new)?,
        authority: row::name(row, "authority", DispatchAuthority::from_name)?,
        state: row::name(row, "state", EpochState::from_name)?,
        row_version: row::number(row, "row_version", RowVersion::new)?,
    })
}
