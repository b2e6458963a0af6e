//! Between the transactions, and Tx C: send, hear, record, look up, late acknowledgements, crash.
//!
//! Invariant: a send waits for no transaction and a stopped worker may send late; only the row's
//! live token makes an outcome count.

use crate::bugs::Bug;
use crate::protocol::{Action, Protocol};
use crate::state::{Order, Row, Seen, State, Task, Wire, small};

impl Protocol {
    /// What the task may do about its attempt.
    pub(crate) fn offer_publication(&self, state: &State, index: usize, actions: &mut Vec<Action>) {
        let task = state.tasks[index];
        if task != Task::Idle && state.left.crashes > 0 {
            actions.push(Action::Crash(index));
        }
        let wire = |attempt: u8| state.attempts[usize::from(attempt)].wire;
        match task {
            Task::Idle | Task::Found { .. } | Task::Locked { .. } => {}
            Task::Holding { .. } => {
                actions.push(Action::Send(index));
                if state.left.renewals > 0 {
                    actions.push(Action::Renew(index));
                }
            }
            Task::Waiting { attempt, .. } => {
                if matches!(wire(attempt), Wire::Acknowledged | Wire::Refused) {
                    actions.push(Action::Hear(index));
                }
                if state.left.timeouts > 0 {
                    actions.push(Action::GiveUp(index));
                }
            }
            Task::Recording { attempt, .. } => {
                if !state.locked(state.delivery_of(attempt)) {
                    actions.push(Action::Record(index));
                    if state.left.lost_replies > 0 {
                        actions.push(Action::RecordUnanswered(index));
                        actions.push(Action::LoseRecord(index));
                    }
                }
            }
            Task::Unanswered { .. } => actions.push(Action::LookUp(index)),
        }
    }

    /// What the broker and the late queue may do.
    pub(crate) fn offer_broker(&self, state: &State, actions: &mut Vec<Action>) {
        for index in 0..state.attempts.len() {
            let attempt = small(index);
            let awaited = state.tasks.iter().any(
                |task| matches!(task, Task::Waiting { attempt: held, .. } if *held == attempt),
            );
            match state.attempts[index].wire {
                Wire::InFlight => {
                    actions.push(Action::Accept(attempt));
                    if awaited && state.left.refusals > 0 {
                        actions.push(Action::Refuse(attempt));
                    }
                }
                Wire::Unheard => actions.push(Action::Accept(attempt)),
                Wire::Acknowledged if !awaited => actions.push(Action::DrainLate(attempt)),
                Wire::Acknowledged | Wire::Unsent | Wire::Refused | Wire::Over => {}
            }
        }
    }

    /// The holder extends its lease, or learns that it has none.
    pub(crate) fn renew(&self, state: &mut State, task: usize) {
        let Task::Holding { attempt, token } = state.tasks[task] else {
            return;
        };
        let delivery = state.delivery_of(attempt);
        if state.locked(delivery) {
            return;
        }
        state.left.renewals -= 1;
        let row = state.deliveries[usize::from(delivery)].row;
        if let Some(next) = self.rules.renewed(row, token, state.clock) {
            state.evidence.stale_change |= !holds(state, attempt);
            state.deliveries[usize::from(delivery)].row = next;
        }
    }

    /// The record goes to the client. A worker that was stopped after it compared its deadline
    /// sends late, so this is always possible.
    pub(crate) fn send(&self, state: &mut State, task: usize) {
        let Task::Holding { attempt, token } = state.tasks[task] else {
            return;
        };
        state.attempts[usize::from(attempt)].wire = Wire::InFlight;
        state.tasks[task] = if self.has(Bug::RecordsAtEnqueue) {
            recording(attempt, token, Seen::Acknowledged, state.clock)
        } else {
            Task::Waiting { attempt, token }
        };
    }

    /// The broker takes the record.
    pub(crate) fn accept(&self, state: &mut State, attempt: u8) {
        let wire = &mut state.attempts[usize::from(attempt)].wire;
        *wire = match *wire {
            Wire::InFlight => Wire::Acknowledged,
            _ => Wire::Over,
        };
        state.broker.push(attempt);
    }

    /// The broker refuses it.
    pub(crate) fn refuse(&self, state: &mut State, attempt: u8) {
        state.left.refusals -= 1;
        state.attempts[usize::from(attempt)].wire = Wire::Refused;
    }

    /// The answer arrives in time.
    pub(crate) fn hear(&self, state: &mut State, task: usize) {
        let Task::Waiting { attempt, token } = state.tasks[task] else {
            return;
        };
        let wire = &mut state.attempts[usize::from(attempt)].wire;
        let seen = if *wire == Wire::Refused {
            Seen::Refused
        } else {
            Seen::Acknowledged
        };
        *wire = Wire::Over;
        state.tasks[task] = recording(attempt, token, seen, state.clock);
    }

    /// It does not.
    pub(crate) fn give_up(&self, state: &mut State, task: usize) {
        let Task::Waiting { attempt, token } = state.tasks[task] else {
            return;
        };
        state.left.timeouts -= 1;
        let attempted = &mut state.attempts[usize::from(attempt)];
        if attempted.wire == Wire::Refused {
            attempted.wire = Wire::Over;
        }
        let scope = state.event_of(state.delivery_of(attempt)).scope;
        state.disturb(scope, Order::Repeats);
        state.tasks[task] = recording(attempt, token, Seen::Nothing, state.clock);
    }

    /// Tx C commits, or finds its claim gone.
    pub(crate) fn record(&self, state: &mut State, task: usize) {
        self.transaction_c(state, task);
        state.tasks[task] = Task::Idle;
    }

    /// The same, and nobody is told.
    pub(crate) fn record_unanswered(&self, state: &mut State, task: usize) {
        if let Task::Recording {
            attempt,
            token,
            seen,
            ..
        } = state.tasks[task]
        {
            state.left.lost_replies -= 1;
            self.transaction_c(state, task);
            state.tasks[task] = Task::Unanswered {
                attempt,
                token,
                seen,
            };
        }
    }

    /// Tx C rolls back, and nobody is told.
    pub(crate) fn lose_record(&self, state: &mut State, task: usize) {
        if let Task::Recording {
            attempt,
            token,
            seen,
            ..
        } = state.tasks[task]
        {
            state.left.lost_replies -= 1;
            state.tasks[task] = Task::Unanswered {
                attempt,
                token,
                seen,
            };
        }
    }

    /// The attempt is closed already, or Tx C is tried again.
    pub(crate) fn look_up(&self, state: &mut State, task: usize) {
        if let Task::Unanswered {
            attempt,
            token,
            seen,
        } = state.tasks[task]
        {
            state.tasks[task] = if state.attempts[usize::from(attempt)].closed > 0 {
                Task::Idle
            } else {
                recording(attempt, token, seen, state.clock)
            };
        }
    }

    /// LATE_ACK_OBSERVED, and nothing else.
    pub(crate) fn drain_late(&self, state: &mut State, attempt: u8) {
        let attempted = &mut state.attempts[usize::from(attempt)];
        attempted.wire = Wire::Over;
        attempted.late = true;
        if self.has(Bug::LateAckChangesState) {
            let delivery = usize::from(attempted.delivery);
            state.evidence.late_change |= state.deliveries[delivery].row != Row::Recorded;
            state.deliveries[delivery].row = Row::Recorded;
        }
    }

    /// The task vanishes: its open transaction rolls back, nobody hears of its record.
    pub(crate) fn crash(&self, state: &mut State, task: usize) {
        state.left.crashes -= 1;
        if let Some(attempt) = state.tasks[task].attempt() {
            let wire = &mut state.attempts[usize::from(attempt)].wire;
            *wire = match *wire {
                Wire::InFlight | Wire::Unheard => Wire::Unheard,
                _ => Wire::Over,
            };
        }
        state.tasks[task] = Task::Idle;
    }

    /// The outcome's update and its journal entry, or, without a live claim, neither; then an
    /// acknowledgement is journalled as a late one.
    fn transaction_c(&self, state: &mut State, task: usize) {
        let Task::Recording {
            attempt,
            token,
            seen,
            began,
        } = state.tasks[task]
        else {
            return;
        };
        let delivery = state.delivery_of(attempt);
        let index = usize::from(delivery);
        let row = state.deliveries[index].clone();
        let used = row.used + u8::from(self.has(Bug::CountAtOutcome));
        let now = match row.row {
            Row::Claimed { until, .. } if self.has(Bug::OutcomeIgnoresLease) => {
                state.clock.min(until - 1)
            }
            _ if self.has(Bug::TransactionStartTime) => began,
            _ => state.clock,
        };
        let token = match row.row {
            Row::Claimed { token, .. } if self.has(Bug::OutcomeIgnoresToken) => token,
            _ => token,
        };
        let Some(next) = self.rules.recorded(row.row, token, seen, used, now) else {
            state.attempts[usize::from(attempt)].late |= seen == Seen::Acknowledged;
            return;
        };
        state.evidence.stale_change |= !holds(state, attempt);
        let certainty = self.rules.outcome(seen).certainty();
        let journal = &mut state.attempts[usize::from(attempt)];
        journal.closed += 1;
        journal.certainty.get_or_insert(certainty);
        let said = if next == Row::Exhausted {
            self.certainty_when_exhausted(state, delivery, certainty)
        } else {
            certainty
        };
        let row = &mut state.deliveries[index];
        row.row = next;
        row.used = used;
        row.certainty = Some(said);
    }
}

/// Whether the attempt is that of the delivery's claim, and the claim is live by the true clock.
fn holds(state: &State, attempt: u8) -> bool {
    let row = &state.deliveries[usize::from(state.delivery_of(attempt))];
    row.attempt == Some(attempt)
        && matches!(row.row, Row::Claimed { until, .. } if until > state.clock)
}

fn recording(attempt: u8, token: u8, seen: Seen, began: u8) -> Task {
    Task::Recording {
        attempt,
        token,
        seen,
        began,
    }
}
