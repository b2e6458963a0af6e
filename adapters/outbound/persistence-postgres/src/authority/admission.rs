//! The write admission.
//!
//! Invariant: FROZEN is committed only by a transaction that held the row FOR UPDATE after FREEZING
//! had been committed by another, so that no business writer that was admitted before is under way
//! and none was admitted since (requirement 004 §30.5).

use super::{Action, AuthorityAbort, PostgresAuthority, audit, failed, unavailable, unknown};
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use application_core::ports::{AuthorityError, FreezeOutcome, OperatorAct, ResumeOutcome};
use domain_core::authority::{AdmissionEvent, WriteAdmission, WriteAdmissionState};
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};
use std::time::Duration;

/// What a compare-and-set left.
enum Change {
    /// The admission moved to this.
    Moved(WriteAdmission),
    /// It was not what the caller saw, but this.
    Differs(WriteAdmission),
}

/// How the wait for writers ended.
enum Drained {
    Frozen(WriteAdmission),
    /// Somebody reopened it meanwhile.
    Reopened,
    TimedOut,
}

impl PostgresAuthority {
    pub(super) async fn read_admission(&self) -> Result<WriteAdmission, DatabaseFault> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        let admission = admission_now(&mut tx).await?;
        session::roll_back(tx).await;
        Ok(admission)
    }

    /// Announces, then waits; business writes go on if the wait came to nothing.
    pub(super) async fn freeze_in_two(
        &self,
        generation: i64,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<FreezeOutcome, AuthorityError> {
        let open = WriteAdmission {
            state: WriteAdmissionState::Open,
            generation,
        };
        let announced = AdmissionEvent::FreezeAnnounced;
        let freezing = match self
            .change(open, announced, Action::FreezeAnnounced, act)
            .await?
        {
            Change::Moved(freezing) => freezing,
            Change::Differs(now) => return Ok(FreezeOutcome::Conflict(now)),
        };
        let timed_out = AdmissionEvent::DrainTimedOut;
        let give_up = || self.change(freezing, timed_out, Action::FreezeTimedOut, act);
        match self.drain(freezing, wait, act).await {
            Ok(Drained::Frozen(frozen)) => Ok(FreezeOutcome::Frozen(frozen)),
            Ok(Drained::Reopened) => {
                let now = self.read_admission().await.map_err(unavailable)?;
                Ok(FreezeOutcome::Conflict(now))
            }
            Ok(Drained::TimedOut) => match give_up().await? {
                Change::Moved(now) | Change::Differs(now) => Ok(FreezeOutcome::TimedOut(now)),
            },
            Err(error) => {
                // As far as it can be done; otherwise an operator thaws it. A FROZEN admission
                // whose commit was not answered is left as it is.
                drop(give_up().await);
                Err(error)
            }
        }
    }

    pub(super) async fn reopen(
        &self,
        from: WriteAdmission,
        event: AdmissionEvent,
        action: Action,
        act: &OperatorAct,
    ) -> Result<ResumeOutcome, AuthorityError> {
        Ok(match self.change(from, event, action, act).await? {
            Change::Moved(open) => ResumeOutcome::Open(open),
            Change::Differs(now) => ResumeOutcome::Conflict(now),
        })
    }

    async fn change(
        &self,
        from: WriteAdmission,
        event: AdmissionEvent,
        action: Action,
        act: &OperatorAct,
    ) -> Result<Change, AuthorityError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.change_once(from, event, action, act).await {
                Ok(change) => return Ok(change),
                Err(abort) => repeats.after(abort, unavailable)?,
            }
        }
    }

    /// One turn of a compare-and-set that waits for no business writer.
    async fn change_once(
        &self,
        from: WriteAdmission,
        event: AdmissionEvent,
        action: Action,
        act: &OperatorAct,
    ) -> Result<Change, AuthorityAbort> {
        let mut tx = self.sessions.begin(Access::RELAY).await.map_err(failed)?;
        let now = admission_now(&mut tx).await.map_err(failed)?;
        let to = match now.next(event) {
            Ok(to) if now == from => to,
            _ => {
                session::roll_back(tx).await;
                return Ok(Change::Differs(now));
            }
        };
        if !move_admission(&mut tx, from, to).await.map_err(failed)? {
            // Another change came between the look and the update.
            let now = admission_now(&mut tx).await.map_err(failed)?;
            session::roll_back(tx).await;
            return Ok(Change::Differs(now));
        }
        audit(&mut tx, action, &subject(to), act, None)
            .await
            .map_err(failed)?;
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(Change::Moved(to))
    }

    async fn drain(
        &self,
        freezing: WriteAdmission,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<Drained, AuthorityError> {
        let mut repeats = self.sessions.repeats();
        loop {
            match self.drain_once(freezing, wait, act).await {
                Ok(drained) => return Ok(drained),
                Err(abort) => repeats.after(abort, unavailable)?,
            }
        }
    }

    /// One turn of the second transaction of a freeze.
    async fn drain_once(
        &self,
        freezing: WriteAdmission,
        wait: Duration,
        act: &OperatorAct,
    ) -> Result<Drained, AuthorityAbort> {
        let Ok(frozen) = freezing.next(AdmissionEvent::WritersDrained) else {
            return Ok(Drained::Reopened);
        };
        let mut tx = self.sessions.begin_waiting(wait).await.map_err(failed)?;
        let held = sqlx::query(include_str!("../sql/await_writers.sql"))
            .bind(freezing.generation)
            .fetch_optional(&mut *tx)
            .await
            .map_err(DatabaseFault::from);
        match held {
            Ok(Some(_)) => {}
            Ok(None) => {
                session::roll_back(tx).await;
                return Ok(Drained::Reopened);
            }
            Err(fault) if fault.is_timeout() => {
                session::roll_back(tx).await;
                return Ok(Drained::TimedOut);
            }
            Err(fault) => return Err(failed(fault)),
        }
        self.sessions.limit(&mut tx).await.map_err(failed)?;
        if !move_admission(&mut tx, freezing, frozen)
            .await
            .map_err(failed)?
        {
            return Err(failed(DatabaseFault::Moved));
        }
        audit(&mut tx, Action::Frozen, &subject(frozen), act, None)
            .await
            .map_err(failed)?;
        session::commit(tx)
            .await
            .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
        Ok(Drained::Frozen(frozen))
    }
}

fn subject(admission: WriteAdmission) -> String {
    format!("write admission, generation {}", admission.generation)
}

async fn admission_now(tx: &mut PgConnection) -> Result<WriteAdmission, DatabaseFault> {
    let row = sqlx::query(include_str!("../sql/write_admission.sql"))
        .fetch_one(tx)
        .await?;
    admission(&row)
}

fn admission(row: &PgRow) -> Result<WriteAdmission, DatabaseFault> {
    Ok(WriteAdmission {
        state: WriteAdmissionState::from_name(row.try_get("state")?)
            .ok_or_else(|| DatabaseFault::Column("state".to_owned()))?,
        generation: row.try_get("generation")?,
    })
}

/// The compare-and-set; tells whether it took place.
async fn move_admission(
    tx: &mut PgConnection,
    from: WriteAdmission,
    to: WriteAdmission,
) -> Result<bool, DatabaseFault> {
    let moved = sqlx::query(include_str!("../sql/move_write_admission.sql"))
        .bind(from.state.as_str())
        .bind(from.generation)
        .bind(to.state.as_str())
        .bind(to.generation)
        .execute(tx)
        .await?;
    Ok(moved.rows_affected() == 1)
}
