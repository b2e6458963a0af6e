//! Claim fences.
//!
//! Invariant: a fence is raised only after every Tx B under way has ended, since each holds the gate
//! until then; a later one reads the gate as it stands (requirement 004 §18.6).

use crate::authority::{Action, audit};
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access, Sessions};
use application_core::ports::{ClaimFencePort, FenceError, FenceOutcome, FenceScope, OperatorAct};
use domain_core::hashing::PartitionKey;
use domain_core::identity::{EventId, LogicalDestinationId};
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};
use std::sync::Arc;

/// Fences of single destinations, scopes and events that stand at most; as the table's CHECK says.
const MAXIMUM: u32 = 256;

type FenceAbort = Abort<FenceError>;

/// The claim gate of one store.
#[derive(Clone)]
pub struct PostgresFences {
    pub(crate) sessions: Arc<Sessions>,
}

fn unavailable(fault: DatabaseFault) -> FenceError {
    FenceError::Unavailable(Box::new(fault))
}

fn unknown(fault: DatabaseFault) -> FenceError {
    FenceError::OutcomeUnknown(Box::new(fault))
}

fn failed(fault: impl Into<DatabaseFault>) -> FenceAbort {
    Abort::of(fault, unavailable)
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Wish {
    Raise,
    Lift,
}

#[async_trait::async_trait]
impl ClaimFencePort for PostgresFences {
    async fn raise(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        self.change(Wish::Raise, scope, act).await
    }

    async fn lift(
        &self,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        self.change(Wish::Lift, scope, act).await
    }

    async fn standing(&self) -> Result<Vec<FenceScope>, FenceError> {
        let read = async {
            let mut tx = self.sessions.begin(Access::Read).await?;
            let mut standing = standing_now(&mut tx).await?;
            session::roll_back(tx).await;
            standing.sort();
            Ok(standing)
        };
        read.await.map_err(unavailable)
    }
}

impl PostgresFences {
    async fn change(
        &self,
        wish: Wish,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.change_once(wish, scope, act).await {
                Ok(outcome) => return Ok(outcome),
                Err(abort) => repeats.after(abort, unavailable)?,
            }
        }
    }

    /// One turn.
    async fn change_once(
        &self,
        wish: Wish,
        scope: &FenceScope,
        act: &OperatorAct,
    ) -> Result<FenceOutcome, FenceAbort> {
        let mut tx = self.sessions.begin(Access::RELAY).await.map_err(failed)?;
        sqlx::query(include_str!("sql/queue_for_claim_gate.sql"))
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        let standing = standing_now(&mut tx).await.map_err(failed)?;
        if let Some(outcome) = already(wish, scope, &standing) {
            session::roll_back(tx).await;
            return Ok(outcome);
        }
        let (statement, action) = match wish {
            Wish::Raise => (include_str!("sql/raise_fence.sql"), Action::FenceRaised),
            Wish::Lift => (include_str!("sql/lift_fence.sql"), Action::FenceLifted),
        };
        let changed = sqlx::query(statement)
            .bind(scope.kind())
            .bind(scope.subject())
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        if changed.rows_affected() != 1 {
            return Err(failed(DatabaseFault::RowCount));
        }
        let subject = format!("{} {}", scope.kind(), scope.subject());
        audit(&mut tx, action, subject.trim_end(), act, None)
            .await
            .map_err(failed)?;
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(FenceOutcome::Changed)
    }
}

/// The outcome, if nothing is to be written.
fn already(wish: Wish, scope: &FenceScope, standing: &[FenceScope]) -> Option<FenceOutcome> {
    match (wish, standing.contains(scope)) {
        (Wish::Raise, true) | (Wish::Lift, false) => Some(FenceOutcome::Unchanged),
        (Wish::Lift, true) => None,
        (Wish::Raise, false) => {
            let counted = standing
                .iter()
                .filter(|one| **one != FenceScope::Everything)
                .count();
            let is_full = counted >= MAXIMUM as usize && *scope != FenceScope::Everything;
            is_full.then_some(FenceOutcome::Full { maximum: MAXIMUM })
        }
    }
}

async fn standing_now(tx: &mut PgConnection) -> Result<Vec<FenceScope>, DatabaseFault> {
    let row = sqlx::query(include_str!("sql/claim_gate.sql"))
        .fetch_one(tx)
        .await?;
    let mut standing = Vec::new();
    if row.try_get("everything")? {
        standing.push(FenceScope::Everything);
    }
    standing.extend(scopes(&row, "destinations", |text| {
        LogicalDestinationId::parse(text)
            .ok()
            .map(FenceScope::Destination)
    })?);
    standing.extend(scopes(&row, "scopes", |text| {
        PartitionKey::from_stored(&text)
            .ok()
            .map(FenceScope::OrderingScope)
    })?);
    standing.extend(scopes(&row, "events", |text| {
        EventId::parse(text).ok().map(FenceScope::Event)
    })?);
    Ok(standing)
}

fn scopes(
    row: &PgRow,
    column: &str,
    parse: fn(String) -> Option<FenceScope>,
) -> Result<Vec<FenceScope>, DatabaseFault> {
    let texts: Vec<String> = row.try_get(column)?;
    texts
        .into_iter()
        .map(|text| parse(text).ok_or_else(|| DatabaseFault::Column(column.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u32) -> FenceScope {
        FenceScope::Event(EventId::parse(format!("e{number}")).expect("event"))
    }

    #[test]
    fn what_stands_already_is_not_written_again() {
        let standing = [event(1)];
        let unchanged = Some(FenceOutcome::Unchanged);
        assert_eq!(already(Wish::Raise, &event(1), &standing), unchanged);
        assert_eq!(already(Wish::Lift, &event(2), &standing), unchanged);
        assert_eq!(already(Wish::Raise, &event(2), &standing), None);
        assert_eq!(already(Wish::Lift, &event(1), &standing), None);
    }

    #[test]
    fn a_full_gate_takes_only_the_widest_fence() {
        let mut standing: Vec<_> = (0..MAXIMUM).map(event).collect();
        let full = Some(FenceOutcome::Full { maximum: MAXIMUM });
        assert_eq!(already(Wish::Raise, &event(MAXIMUM), &standing), full);
        assert_eq!(
            already(Wish::Raise, &FenceScope::Everything, &standing),
            None
        );
        standing.push(FenceScope::Everything);
        assert_eq!(already(Wish::Raise, &event(MAXIMUM), &standing), full);
        assert_eq!(already(Wish::Lift, &event(0), &standing), None);
    }
}
