//! The append-only log of who changed authority and fences, and why.
//!
//! Invariant: a row is written in the transaction of the change it tells of.

use crate::errors::DatabaseFault;
use application_core::ports::OperatorAct;
use domain_core::identity::ActReference;
use sqlx::PgConnection;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    FreezeAnnounced,
    Frozen,
    FreezeTimedOut,
    Resumed,
    Thawed,
    EpochActivated,
    FenceRaised,
    FenceLifted,
}

impl Action {
    /// The stable name, as the table's CHECK lists it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::FreezeAnnounced => "FREEZE_ANNOUNCED",
            Self::Frozen => "FROZEN",
            Self::FreezeTimedOut => "FREEZE_TIMED_OUT",
            Self::Resumed => "RESUMED",
            Self::Thawed => "THAWED",
            Self::EpochActivated => "EPOCH_ACTIVATED",
            Self::FenceRaised => "FENCE_RAISED",
            Self::FenceLifted => "FENCE_LIFTED",
        }
    }
}

/// Appends one row.
pub(crate) async fn audit(
    tx: &mut PgConnection,
    action: Action,
    subject: &str,
    act: &OperatorAct,
    approval: Option<&ActReference>,
) -> Result<(), DatabaseFault> {
    sqlx::query(include_str!("../sql/audit_authority.sql"))
        .bind(action.as_str())
        .bind(subject)
        .bind(act.operator.as_str())
        .bind(act.reason_code.as_str())
        .bind(act.reason.as_str())
        .bind(act.reference.as_str())
        .bind(approval.map(ActReference::as_str))
        .execute(tx)
        .await?;
    Ok(())
}
