//! Operators, business transactions, the freeze and the change of authority.
//!
//! Invariant: a lock taken FOR SHARE or FOR KEY SHARE is held to the end of its transaction, and
//! who needs the row for itself waits for it.

use crate::bounds::Appends;
use crate::bugs::Bug;
use crate::protocol::{Action, Protocol};
use crate::state::{Append, Delivery, Epoch, Order, Row, State, Task, small};
use domain_core::authority::{AdmissionEvent, WriteAdmissionState};

impl Protocol {
    /// What an operator may do.
    pub(crate) fn offer_operator(&self, state: &State, actions: &mut Vec<Action>) {
        for delivery in (0..state.deliveries.len()).map(small) {
            let row = &state.deliveries[usize::from(delivery)];
            if !row.current || state.locked(delivery) {
                continue;
            }
            if state.left.holds > 0 && self.rules.held(row.row, state.clock).is_some() {
                actions.push(Action::Hold(delivery));
            }
            if state.left.skips > 0 && self.rules.skipped(row.row).is_some() {
                actions.push(Action::Skip(delivery));
            }
            if state.left.requeues > 0
                && state.epoch == Epoch::Polling
                && self.rules.requeueable(row.row)
                && state.clock < self.rules.requeue_deadline(0)
            {
                actions.push(Action::Requeue(delivery));
            }
        }
    }

    /// HOLD; the attempt of a lapsed claim is closed in the same transaction.
    pub(crate) fn hold(&self, state: &mut State, delivery: u8) {
        state.left.holds -= 1;
        let row = state.deliveries[usize::from(delivery)].row;
        if let Some(next) = self.rules.held(row, state.clock) {
            if !self.has(Bug::HoldLeavesAttemptOpen) {
                self.close_abandoned(state, delivery);
            }
            state.deliveries[usize::from(delivery)].row = next;
        }
    }

    /// SKIPPED.
    pub(crate) fn skip(&self, state: &mut State, delivery: u8) {
        state.left.skips -= 1;
        let row = state.deliveries[usize::from(delivery)].row;
        if let Some(next) = self.rules.skipped(row) {
            state.deliveries[usize::from(delivery)].row = next;
            let scope = state.event_of(delivery).scope;
            state.disturb(scope, Order::Regresses);
        }
    }

    /// SUPERSEDED and a new CURRENT generation.
    pub(crate) fn requeue(&self, state: &mut State, delivery: u8) {
        state.left.requeues -= 1;
        let event = usize::from(state.deliveries[usize::from(delivery)].event);
        state.deliveries[usize::from(delivery)].current = self.has(Bug::RequeueKeepsCurrent);
        self.insert_delivery(state, event);
        let scope = state.events[event].scope;
        state.disturb(scope, Order::Repeats);
    }

    /// A READY generation of the event. Every event is taken for created at the start, which only
    /// shortens its window.
    pub(crate) fn insert_delivery(&self, state: &mut State, event: usize) {
        state.deliveries.push(Delivery {
            event: small(event),
            current: true,
            row: Row::Ready,
            deadline: self.rules.deadline(0, state.clock),
            used: 0,
            made: 0,
            attempt: None,
            certainty: None,
        });
    }

    /// What the business may do.
    pub(crate) fn offer_appends(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, event) in state.events.iter().enumerate() {
            match event.append {
                Append::Absent => {
                    let in_turn = self.bounds.appends == Appends::AnyOrder
                        || state.events.iter().all(|other| {
                            other.scope != event.scope
                                || other.sequence >= event.sequence
                                || matches!(other.append, Append::Committed(_))
                        });
                    if in_turn && state.admission.0 == WriteAdmissionState::Open {
                        actions.push(Action::BeginAppend(index));
                    }
                }
                Append::UnderWay(_) => actions.push(Action::CommitAppend(index)),
                Append::Committed(_) => {}
            }
        }
    }

    /// Tx A: the admission FOR KEY SHARE, the ACTIVE epoch FOR SHARE.
    pub(crate) fn begin_append(&self, state: &mut State, event: usize) {
        state.events[event].append = Append::UnderWay(state.epoch);
    }

    /// The event, and its delivery if polling publishes it.
    pub(crate) fn commit_append(&self, state: &mut State, event: usize) {
        let Append::UnderWay(epoch) = state.events[event].append else {
            return;
        };
        state.evidence.appended_retired |= epoch != state.epoch;
        state.events[event].append = Append::Committed(epoch);
        let appended = state.events[event];
        let late = state.events.iter().any(|other| {
            other.scope == appended.scope
                && other.sequence > appended.sequence
                && matches!(other.append, Append::Committed(_))
        });
        if late {
            state.disturb(appended.scope, Order::Regresses);
        }
        if epoch == Epoch::Polling {
            self.insert_delivery(state, event);
        }
    }

    /// What the freeze and the cut-over may do.
    pub(crate) fn offer_authority(&self, state: &State, actions: &mut Vec<Action>) {
        match state.admission.0 {
            WriteAdmissionState::Open => {
                if state.left.freezes > 0 {
                    actions.push(Action::Announce);
                }
            }
            WriteAdmissionState::Freezing => {
                if self.has(Bug::FreezeWithoutLock) || !writing(state) {
                    actions.push(Action::Freeze);
                }
                actions.push(Action::AbandonFreeze);
            }
            WriteAdmissionState::Frozen => actions.push(Action::Resume),
        }
        if state.left.switches > 0 && state.epoch == Epoch::Polling {
            let appends = writing(state) && !self.has(Bug::AppendReadsEpochUnlocked);
            let claims = state
                .tasks
                .iter()
                .any(|task| matches!(task, Task::Found { .. } | Task::Locked { .. }))
                && !self.has(Bug::ClaimReadsEpochUnlocked);
            if !appends && !claims {
                actions.push(Action::Switch);
            }
        }
    }

    /// One of the admission's transitions.
    pub(crate) fn move_admission(&self, state: &mut State, action: Action) {
        let event = match action {
            Action::Announce => {
                state.left.freezes -= 1;
                AdmissionEvent::FreezeAnnounced
            }
            Action::Freeze => AdmissionEvent::WritersDrained,
            Action::AbandonFreeze => AdmissionEvent::DrainTimedOut,
            _ => AdmissionEvent::Resumed,
        };
        if let Some(next) = self.rules.admission(state.admission, event) {
            state.admission = next;
        }
    }

    /// The polling epoch is RETIRED, the next one ACTIVE.
    pub(crate) fn switch(&self, state: &mut State) {
        state.left.switches -= 1;
        state.epoch = Epoch::Cdc;
    }
}

/// Whether a business transaction is under way.
pub(crate) fn writing(state: &State) -> bool {
    state
        .events
        .iter()
        .any(|event| matches!(event.append, Append::UnderWay(_)))
}
