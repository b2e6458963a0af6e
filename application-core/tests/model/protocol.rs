//! The protocol as a model: what may happen next, and what it does.
//!
//! Invariant: an action is one atomic step of one party; whatever a transaction holds between two
//! steps is in its task's state and visible to nobody else but as a lock.

use crate::bounds::{Appends, Bounds};
use crate::bugs::Bug;
use crate::properties;
use crate::rules::Rules;
use crate::state::{Append, Epoch, Order, Row, State, Task};
use stateright::{Model, Property};

/// The model: bounds, rules, and at most one planted bug.
#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    /// How much happens.
    pub(crate) bounds: Bounds,
    /// domain-core.
    pub(crate) rules: Rules,
    bug: Option<Bug>,
}

/// One step. A task is named by its place, a delivery and an attempt by their insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A second passes.
    Tick,
    /// A task begins Tx B and finds a head without locking it.
    Find(usize, u8),
    /// It locks the head by key, with the whole predicate, or skips it.
    Lock(usize),
    /// It commits the claim, or the end of the budget.
    CommitClaim(usize),
    /// It extends its lease.
    Renew(usize),
    /// It hands the record to the client.
    Send(usize),
    /// The broker takes a record.
    Accept(u8),
    /// The broker refuses a record.
    Refuse(u8),
    /// A task hears the broker and begins Tx C.
    Hear(usize),
    /// A task stops waiting and begins Tx C.
    GiveUp(usize),
    /// It commits Tx C.
    Record(usize),
    /// The same, and the reply is lost.
    RecordUnanswered(usize),
    /// Tx C never got through, and that is not known either.
    LoseRecord(usize),
    /// It looks its attempt up.
    LookUp(usize),
    /// A late acknowledgement is journalled.
    DrainLate(u8),
    /// A task vanishes.
    Crash(usize),
    /// An operator holds.
    Hold(u8),
    /// An operator releases without a publication.
    Skip(u8),
    /// An audited requeue.
    Requeue(u8),
    /// A business transaction passes the write admission and reads the epoch.
    BeginAppend(usize),
    /// It commits.
    CommitAppend(usize),
    /// The first transaction of a freeze.
    Announce,
    /// The second.
    Freeze,
    /// The second gives up.
    AbandonFreeze,
    /// Business writes go on.
    Resume,
    /// Another authority becomes ACTIVE.
    Switch,
}

impl Protocol {
    /// A model without a bug.
    pub(crate) fn sound(bounds: Bounds) -> Self {
        Self {
            rules: Rules::new(&bounds),
            bounds,
            bug: None,
        }
    }

    /// A model with one.
    pub(crate) fn planted(bounds: Bounds, bug: Bug) -> Self {
        Self {
            bug: Some(bug),
            ..Self::sound(bounds)
        }
    }

    /// Whether this is the planted bug.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether anything but time may still happen, or time matters to somebody.
    fn time_matters(&self, state: &State) -> bool {
        state.clock < self.bounds.end()
            && (state.tasks.iter().any(|task| *task != Task::Idle)
                || state.deliveries.iter().any(|delivery| {
                    delivery.current
                        && matches!(
                            delivery.row,
                            Row::Ready | Row::Claimed { .. } | Row::RetryWait { .. }
                        )
                }))
    }

    fn tick(&self, state: &mut State) {
        state.clock += 1;
        let lapsed: Vec<_> = state
            .deliveries
            .iter()
            .filter(|delivery| {
                matches!(delivery.row, Row::Claimed { until, .. } if until <= state.clock)
            })
            .map(|delivery| state.events[usize::from(delivery.event)].scope)
            .collect();
        for scope in lapsed {
            state.disturb(scope, Order::Repeats);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::initial(&self.bounds);
        for index in 0..state.events.len() {
            if state.events[index].append == Append::Committed(Epoch::Polling) {
                self.insert_delivery(&mut state, index);
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self.time_matters(state) {
            actions.push(Action::Tick);
        }
        for index in 0..state.tasks.len() {
            // Equal tasks have equal futures.
            if index == 0 || state.tasks[index] != state.tasks[index - 1] {
                self.offer_claims(state, index, actions);
                self.offer_publication(state, index, actions);
            }
        }
        self.offer_broker(state, actions);
        self.offer_operator(state, actions);
        if self.bounds.appends != Appends::Done {
            self.offer_appends(state, actions);
        }
        self.offer_authority(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => self.tick(&mut state),
            Action::Find(task, delivery) => self.find(&mut state, task, delivery),
            Action::Lock(task) => self.lock(&mut state, task),
            Action::CommitClaim(task) => self.commit_claim(&mut state, task),
            Action::Renew(task) => self.renew(&mut state, task),
            Action::Send(task) => self.send(&mut state, task),
            Action::Accept(attempt) => self.accept(&mut state, attempt),
            Action::Refuse(attempt) => self.refuse(&mut state, attempt),
            Action::Hear(task) => self.hear(&mut state, task),
            Action::GiveUp(task) => self.give_up(&mut state, task),
            Action::Record(task) => self.record(&mut state, task),
            Action::RecordUnanswered(task) => self.record_unanswered(&mut state, task),
            Action::LoseRecord(task) => self.lose_record(&mut state, task),
            Action::LookUp(task) => self.look_up(&mut state, task),
            Action::DrainLate(attempt) => self.drain_late(&mut state, attempt),
            Action::Crash(task) => self.crash(&mut state, task),
            Action::Hold(delivery) => self.hold(&mut state, delivery),
            Action::Skip(delivery) => self.skip(&mut state, delivery),
            Action::Requeue(delivery) => self.requeue(&mut state, delivery),
            Action::BeginAppend(event) => self.begin_append(&mut state, event),
            Action::CommitAppend(event) => self.commit_append(&mut state, event),
            Action::Announce | Action::Freeze | Action::AbandonFreeze | Action::Resume => {
                self.move_admission(&mut state, action);
            }
            Action::Switch => self.switch(&mut state),
        }
        state.tasks.sort_unstable();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.bounds)
    }
}
