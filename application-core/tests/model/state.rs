//! What the store, the broker and the workers hold.
//!
//! Invariant: two states that differ only in which task is which are one state; all tasks share a
//! worker id, so that nothing but the token tells their claims apart.

use crate::bounds::{Appends, Bounds, Left};
use domain_core::authority::WriteAdmissionState;
use domain_core::publication::AcceptanceCertainty;

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Seconds since the start, by the database clock.
    pub(crate) clock: u8,
    /// `outbox_event`, in order of scope position.
    pub(crate) events: Vec<Event>,
    /// `outbox_delivery`, in order of insertion.
    pub(crate) deliveries: Vec<Delivery>,
    /// The attempt journal, one entry an attempt.
    pub(crate) attempts: Vec<Attempt>,
    /// The attempts whose record the broker has, in its order.
    pub(crate) broker: Vec<u8>,
    /// The relay's tasks.
    pub(crate) tasks: Vec<Task>,
    /// `write_admission`.
    pub(crate) admission: (WriteAdmissionState, u8),
    /// Who is ACTIVE.
    pub(crate) epoch: Epoch,
    /// Per scope, the sequence where its open part was last seen to begin.
    pub(crate) marks: Vec<u8>,
    /// Per scope, what its order on the broker may look like.
    pub(crate) order: Vec<Order>,
    /// Faults and interventions to come.
    pub(crate) left: Left,
    /// What must never have happened, noted where it would.
    pub(crate) evidence: Evidence,
}

/// The ACTIVE publication epoch; the first is followed by the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Epoch {
    /// POLLING_V2.
    Polling,
    /// CDC; the polling epoch is RETIRED.
    Cdc,
}

/// An event of the business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    /// Its ordering scope.
    pub(crate) scope: u8,
    /// Its place in the scope.
    pub(crate) sequence: u8,
    /// Whether it exists.
    pub(crate) append: Append,
}

/// How far a business transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Append {
    /// Not begun.
    Absent,
    /// Under way: admitted, the ACTIVE epoch read.
    UnderWay(Epoch),
    /// Committed under an epoch.
    Committed(Epoch),
}

/// A delivery generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Delivery {
    /// Its event.
    pub(crate) event: u8,
    /// `CURRENT`, or `SUPERSEDED`.
    pub(crate) current: bool,
    /// Its state.
    pub(crate) row: Row,
    /// The automatic attempt deadline.
    pub(crate) deadline: u8,
    /// Publication attempts as the row counts them.
    pub(crate) used: u8,
    /// Publication attempts as they were made.
    pub(crate) made: u8,
    /// The attempt of the last claim.
    pub(crate) attempt: Option<u8>,
    /// What the row says about acceptance.
    pub(crate) certainty: Option<AcceptanceCertainty>,
}

/// The delivery states that occur here, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// READY
    Ready,
    /// CLAIMED
    Claimed {
        /// The fence.
        token: u8,
        /// The end of the lease.
        until: u8,
    },
    /// RETRY_WAIT
    RetryWait {
        /// The next claim.
        due: u8,
    },
    /// DELIVERY_RECORDED
    Recorded,
    /// EXHAUSTED
    Exhausted,
    /// HOLD
    Hold,
    /// SKIPPED
    Skipped,
}

/// A publication attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    /// Whose.
    pub(crate) delivery: u8,
    /// Where its record is.
    pub(crate) wire: Wire,
    /// Its OUTCOME_OBSERVED entries.
    pub(crate) closed: u8,
    /// What the first of them said.
    pub(crate) certainty: Option<AcceptanceCertainty>,
    /// LATE_ACK_OBSERVED.
    pub(crate) late: bool,
}

/// A record between client and broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wire {
    /// Not handed to the client.
    Unsent,
    /// On its way; the broker may take it, and may never.
    InFlight,
    /// The same, and nobody is left to hear.
    Unheard,
    /// Taken; the acknowledgement is on its way.
    Acknowledged,
    /// Refused; the answer is on its way.
    Refused,
    /// Nothing more will come of it.
    Over,
}

/// What a task saw of its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Seen {
    /// The acknowledgement.
    Acknowledged,
    /// A refusal that a retry may cure.
    Refused,
    /// Nothing in time.
    Nothing,
}

/// A relay task. `attempt` is the one it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Task {
    /// Between turns.
    Idle,
    /// Tx B open: epoch read, a head found without a lock.
    Found {
        /// The head.
        delivery: u8,
    },
    /// Tx B open: the row is locked, not yet changed for others.
    Locked {
        /// The row.
        delivery: u8,
        /// The clock, read under the lock.
        now: u8,
    },
    /// Tx B committed, nothing sent.
    Holding {
        /// The attempt.
        attempt: u8,
        /// Its token.
        token: u8,
    },
    /// Sent; no transaction is open.
    Waiting {
        /// The attempt.
        attempt: u8,
        /// Its token.
        token: u8,
    },
    /// Tx C open, the row not yet locked.
    Recording {
        /// The attempt.
        attempt: u8,
        /// Its token.
        token: u8,
        /// The outcome.
        seen: Seen,
        /// When the transaction began.
        began: u8,
    },
    /// Tx C's reply was lost; to be looked up.
    Unanswered {
        /// The attempt.
        attempt: u8,
        /// Its token.
        token: u8,
        /// The outcome.
        seen: Seen,
    },
}

/// What order a scope's records may have on the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Order {
    /// The normal path: ascending.
    Kept,
    /// A claim lapsed, an answer was given up, or a generation was added: records may come again.
    Repeats,
    /// An operator released an event, or a smaller sequence committed late: a first appearance may
    /// come behind a larger one.
    Regresses,
}

/// Violations that a single state does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Evidence {
    /// A row changed for somebody who did not hold its live claim.
    pub(crate) stale_change: bool,
    /// A row changed for a late acknowledgement.
    pub(crate) late_change: bool,
    /// A row was claimed behind an unresolved smaller one.
    pub(crate) claimed_behind: bool,
    /// A claim committed after its epoch was retired.
    pub(crate) claimed_retired: bool,
    /// An event committed after its epoch was retired.
    pub(crate) appended_retired: bool,
}

impl Task {
    /// The attempt that the task works on.
    pub(crate) fn attempt(self) -> Option<u8> {
        match self {
            Self::Idle | Self::Found { .. } | Self::Locked { .. } => None,
            Self::Holding { attempt, .. }
            | Self::Waiting { attempt, .. }
            | Self::Recording { attempt, .. }
            | Self::Unanswered { attempt, .. } => Some(attempt),
        }
    }
}

impl State {
    /// The start.
    pub(crate) fn initial(bounds: &Bounds) -> Self {
        let scopes = usize::from(bounds.scopes.iter().max().map_or(0, |scope| scope + 1));
        let done = bounds.appends == Appends::Done;
        let events: Vec<_> = bounds
            .scopes
            .iter()
            .enumerate()
            .map(|(index, &scope)| Event {
                scope,
                sequence: small(index),
                append: if done {
                    Append::Committed(Epoch::Polling)
                } else {
                    Append::Absent
                },
            })
            .collect();
        Self {
            clock: 0,
            deliveries: Vec::new(),
            attempts: Vec::new(),
            broker: Vec::new(),
            tasks: vec![Task::Idle; bounds.tasks],
            admission: (WriteAdmissionState::Open, 1),
            epoch: Epoch::Polling,
            marks: vec![0; scopes],
            order: vec![Order::Kept; scopes],
            left: bounds.left,
            evidence: Evidence::default(),
            events,
        }
    }

    /// The event of a delivery.
    pub(crate) fn event_of(&self, delivery: u8) -> &Event {
        &self.events[usize::from(self.deliveries[usize::from(delivery)].event)]
    }

    /// The delivery of an attempt.
    pub(crate) fn delivery_of(&self, attempt: u8) -> u8 {
        self.attempts[usize::from(attempt)].delivery
    }

    /// The event of each record on the broker, in the broker's order.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Event> {
        self.broker
            .iter()
            .map(|&attempt| self.event_of(self.delivery_of(attempt)))
    }

    /// Whether an open transaction holds the row's lock.
    pub(crate) fn locked(&self, delivery: u8) -> bool {
        self.tasks
            .iter()
            .any(|task| matches!(task, Task::Locked { delivery: held, .. } if *held == delivery))
    }

    /// Notes that a scope left the normal path.
    pub(crate) fn disturb(&mut self, scope: u8, order: Order) {
        let noted = &mut self.order[usize::from(scope)];
        *noted = (*noted).max(order);
    }
}

/// A position as the small number that the model stores.
pub(crate) fn small(index: usize) -> u8 {
    u8::try_from(index).expect("the bounds are small")
}
