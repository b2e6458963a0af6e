//! The publication epoch.
//!
//! Invariant: an activation holds the ACTIVE row against every append and claim before it retires
//! it, and both changes commit together or not at all (requirement 004 §27.1).

use super::{Action, AuthorityAbort, PostgresAuthority, audit, failed, unavailable, unknown};
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use application_core::ports::{ActivationOutcome, EpochActivation, EpochRecord};
use domain_core::authority::EpochState;
use domain_core::delivery::DispatchAuthority;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{PublicationEpoch, RowVersion};
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

impl PostgresAuthority {
    pub(super) async fn read_active_epoch(&self) -> Result<Option<EpochRecord>, DatabaseFault> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        let row = sqlx::query(include_str!("../sql/active_epoch.sql"))
            .fetch_optional(&mut *tx)
            .await?;
        session::roll_back(tx).await;
        row.map(|row| epoch_record(&row)).transpose()
    }

    /// One turn. Two that prepare at once take the same number; the one that finds it taken goes
    /// again.
    pub(super) async fn prepare_once(
        &self,
        authority: DispatchAuthority,
        settings: Option<&Sha256Digest>,
    ) -> Result<EpochRecord, AuthorityAbort> {
        let mut tx = self.sessions.begin(Access::RELAY).await.map_err(failed)?;
        let row = sqlx::query(include_str!("../sql/prepare_epoch.sql"))
            .bind(authority.as_str())
            .bind(settings.map(|digest| &digest.as_bytes()[..]))
            .fetch_one(&mut *tx)
            .await
            .map_err(|error| {
                let fault = DatabaseFault::from(error);
                match fault.unique_violation() {
                    Some("outbox_publication_epoch_pkey") => Abort::Again(fault),
                    _ => failed(fault),
                }
            })?;
        let prepared = epoch_record(&row).map_err(failed)?;
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(prepared)
    }

    /// One turn.
    pub(super) async fn activate_once(
        &self,
        activation: &EpochActivation,
    ) -> Result<ActivationOutcome, AuthorityAbort> {
        let mut tx = self
            .sessions
            .begin_waiting(activation.wait)
            .await
            .map_err(failed)?;
        match lock_active(&mut tx).await {
            Ok(active) if active == activation.expected_active => {}
            Ok(active) => {
                session::roll_back(tx).await;
                return Ok(ActivationOutcome::ActiveDiffers(active));
            }
            Err(fault) if fault.is_timeout() => {
                session::roll_back(tx).await;
                return Ok(ActivationOutcome::TimedOut);
            }
            Err(fault) => return Err(failed(fault)),
        }
        self.sessions.limit(&mut tx).await.map_err(failed)?;
        if !replace(&mut tx, activation).await.map_err(failed)? {
            session::roll_back(tx).await;
            return Ok(ActivationOutcome::NotPrepared);
        }
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(ActivationOutcome::Activated)
    }
}

/// Waits for every append and claim under way, and tells which epoch is ACTIVE.
async fn lock_active(tx: &mut PgConnection) -> Result<Option<PublicationEpoch>, DatabaseFault> {
    sqlx::query(include_str!("../sql/queue_for_epochs.sql"))
        .execute(&mut *tx)
        .await?;
    let active: Option<i64> = sqlx::query_scalar(include_str!("../sql/lock_active_epoch.sql"))
        .fetch_optional(tx)
        .await?;
    active.map(epoch).transpose()
}

/// Retires one and activates the other; tells whether the other was as the operator saw it.
async fn replace(
    tx: &mut PgConnection,
    activation: &EpochActivation,
) -> Result<bool, DatabaseFault> {
    if let Some(active) = activation.expected_active {
        let retired = sqlx::query(include_str!("../sql/retire_epoch.sql"))
            .bind(active.value())
            .execute(&mut *tx)
            .await?;
        if retired.rows_affected() != 1 {
            return Err(DatabaseFault::RowCount);
        }
    }
    let act = &activation.act;
    let activated = sqlx::query(include_str!("../sql/activate_epoch.sql"))
        .bind(activation.epoch.value())
        .bind(activation.row_version.value())
        .bind(act.operator.as_str())
        .bind(activation.approval.as_str())
        .execute(&mut *tx)
        .await?;
    if activated.rows_affected() != 1 {
        return Ok(false);
    }
    let subject = match activation.expected_active {
        Some(active) => format!(
            "epoch {} after {}",
            activation.epoch.value(),
            active.value()
        ),
        None => format!("epoch {}", activation.epoch.value()),
    };
    audit(
        tx,
        Action::EpochActivated,
        &subject,
        act,
        Some(&activation.approval),
    )
    .await?;
    Ok(true)
}

fn epoch(number: i64) -> Result<PublicationEpoch, DatabaseFault> {
    PublicationEpoch::new(number).map_err(|_| DatabaseFault::Column("epoch_id".to_owned()))
}

fn epoch_record(row: &PgRow) -> Result<EpochRecord, DatabaseFault> {
    let column = |name: &str| DatabaseFault::Column(name.to_owned());
    Ok(EpochRecord {
        epoch: epoch(row.try_get("epoch_id")?)?,
        authority: DispatchAuthority::from_name(row.try_get("authority")?)
            .ok_or_else(|| column("authority"))?,
        state: EpochState::from_name(row.try_get("state")?).ok_or_else(|| column("state"))?,
        row_version: RowVersion::new(row.try_get("row_version")?)
            .map_err(|_| column("row_version"))?,
    })
}
