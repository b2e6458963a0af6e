//! Work logs: time is set aside, perhaps anew, and then the work ends.
//!
//! Invariant: a work log that ended never changes again.

use super::{Change, OneLine, RuleBroken, next_version};
use crate::contracts::{CompletionStatus, WorkLogCompleted, WorkLogReserved};
use domain_core::identity::{AggregateId, AggregateSequence};

/// One work log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkLog {
    /// Its id.
    pub id: AggregateId,
    /// Changes so far.
    pub version: AggregateSequence,
    /// What the work is about.
    pub title: OneLine,
    /// Minutes set aside.
    pub minutes: i64,
    /// Free classification.
    pub tags: Vec<OneLine>,
    /// Whether it ended.
    pub state: WorkLogState,
}

/// Where a work log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkLogState {
    /// Time is set aside.
    Reserved,
    /// It ended.
    Completed(Completion),
}

/// How work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Minutes the work took.
    pub minutes_spent: i64,
    /// In which way.
    pub status: CompletionStatus,
    /// Whether something is left to do.
    pub follow_up_needed: bool,
}

/// Sets time aside, or sets it aside anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReserveWorkLog {
    /// Which work log.
    pub id: AggregateId,
    /// What the work is about.
    pub title: OneLine,
    /// Minutes to set aside.
    pub minutes: i64,
    /// Free classification.
    pub tags: Vec<OneLine>,
}

/// Ends the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteWorkLog {
    /// Which work log.
    pub id: AggregateId,
    /// How it ended.
    pub completion: Completion,
}

impl WorkLog {
    /// Decides on a reservation.
    ///
    /// # Errors
    /// [`RuleBroken`] when the work log ended already.
    pub fn reserve(
        current: Option<&Self>,
        command: &ReserveWorkLog,
    ) -> Result<Change<Self, WorkLogReserved>, RuleBroken> {
        if let Some(log) = current {
            log.still_open()?;
        }
        let event = WorkLogReserved {
            work_log_id: command.id.as_str().to_owned(),
            title: command.title.as_str().to_owned(),
            minutes: command.minutes,
            tags: command
                .tags
                .iter()
                .map(|tag| tag.as_str().to_owned())
                .collect(),
        };
        let aggregate = Self {
            id: command.id.clone(),
            version: next_version(current.map(|log| log.version))?,
            title: command.title.clone(),
            minutes: command.minutes,
            tags: command.tags.clone(),
            state: WorkLogState::Reserved,
        };
        Ok(Change { aggregate, event })
    }

    /// Decides on an end.
    ///
    /// # Errors
    /// [`RuleBroken`] when there is no such work log or it ended already.
    pub fn complete(
        current: Option<&Self>,
        command: &CompleteWorkLog,
    ) -> Result<Change<Self, WorkLogCompleted>, RuleBroken> {
        let log = current.ok_or(RuleBroken {
            pointer: "/workLogId",
            rule: "the work log was never reserved",
        })?;
        log.still_open()?;
        let Completion {
            minutes_spent,
            status,
            follow_up_needed,
        } = command.completion;
        let event = WorkLogCompleted {
            work_log_id: command.id.as_str().to_owned(),
            minutes_spent,
            status,
            follow_up_needed,
        };
        let aggregate = Self {
            version: next_version(Some(log.version))?,
            state: WorkLogState::Completed(command.completion),
            ..log.clone()
        };
        Ok(Change { aggregate, event })
    }

    fn still_open(&self) -> Result<(), RuleBroken> {
        match self.state {
            WorkLogState::Reserved => Ok(()),
            WorkLogState::Completed(_) => Err(RuleBroken {
                pointer: "/workLogId",
                rule: "the work log is already completed",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(minutes: i64) -> ReserveWorkLog {
        ReserveWorkLog {
            id: AggregateId::parse("작업-1").unwrap(),
            title: OneLine::parse("표지 시안").unwrap(),
            minutes,
            tags: vec![OneLine::parse("design").unwrap()],
        }
    }

    fn end() -> CompleteWorkLog {
        CompleteWorkLog {
            id: AggregateId::parse("작업-1").unwrap(),
            completion: Completion {
                minutes_spent: 70,
                status: CompletionStatus::Finished,
                follow_up_needed: false,
            },
        }
    }

    #[test]
    fn each_decision_is_one_version_and_one_event() {
        let first = WorkLog::reserve(None, &reservation(60)).unwrap();
        assert_eq!(first.aggregate.version.value(), 1);
        assert_eq!(first.event.minutes, 60);
        let second = WorkLog::reserve(Some(&first.aggregate), &reservation(90)).unwrap();
        assert_eq!(second.aggregate.version.value(), 2);
        assert_eq!(second.aggregate.minutes, 90);
        let third = WorkLog::complete(Some(&second.aggregate), &end()).unwrap();
        assert_eq!(third.aggregate.version.value(), 3);
        assert_eq!(third.aggregate.minutes, 90);
        assert_eq!(third.event.minutes_spent, 70);
    }

    #[test]
    fn what_ended_or_never_began_does_not_change() {
        let never = WorkLog::complete(None, &end()).unwrap_err();
        assert_eq!(never.rule, "the work log was never reserved");
        let open = WorkLog::reserve(None, &reservation(60)).unwrap().aggregate;
        let ended = WorkLog::complete(Some(&open), &end()).unwrap().aggregate;
        for refused in [
            WorkLog::complete(Some(&ended), &end()).unwrap_err(),
            WorkLog::reserve(Some(&ended), &reservation(60)).unwrap_err(),
        ] {
            assert_eq!(refused.rule, "the work log is already completed");
            assert_eq!(refused.pointer, "/workLogId");
        }
    }
}
