//! The explorations: small worlds that together hold every step of the protocol.
//!
//! Invariant: every world is explored whole without a bug; a bug is planted in one of them.

use crate::bounds::{Appends, Bounds, Left};
use crate::properties::*;

const NONE: Left = Left {
    crashes: 0,
    timeouts: 0,
    refusals: 0,
    lost_replies: 0,
    renewals: 0,
    holds: 0,
    skips: 0,
    requeues: 0,
    freezes: 0,
    switches: 0,
};

/// Two tasks compete for two events of a scope; one vanishes or gives up.
pub(crate) const COMPETITION: Bounds = Bounds {
    name: "competition",
    scopes: &[0, 0],
    appends: Appends::Done,
    tasks: 2,
    marks: false,
    age: 4,
    horizon: 4,
    left: Left {
        crashes: 1,
        timeouts: 1,
        ..NONE
    },
    witnesses: &[
        ALL_RECORDED,
        DUPLICATE,
        REGRESSION,
        STALE_RECORDING,
        LAPSED_RECORDING,
        LATE_AFTER_RECLAIM,
        EXHAUSTED_IN_DOUBT,
    ],
};

/// One event against refusals, silence, lost replies and a renewal.
pub(crate) const ANSWERS: Bounds = Bounds {
    name: "answers",
    scopes: &[0],
    tasks: 2,
    age: 4,
    horizon: 4,
    left: Left {
        timeouts: 1,
        refusals: 2,
        lost_replies: 1,
        renewals: 1,
        ..NONE
    },
    witnesses: &[
        ALL_RECORDED,
        DUPLICATE,
        STALE_RECORDING,
        LATE_AFTER_RECLAIM,
        EXHAUSTED_IN_DOUBT,
        EXHAUSTED_UNACCEPTED,
    ],
    ..COMPETITION
};

/// A worker that vanishes again and again.
pub(crate) const CRASH_LOOP: Bounds = Bounds {
    name: "crash loop",
    scopes: &[0],
    tasks: 1,
    age: 6,
    horizon: 6,
    left: Left { crashes: 3, ..NONE },
    witnesses: &[ALL_RECORDED, DUPLICATE, EXHAUSTED_IN_DOUBT],
    ..COMPETITION
};

/// An operator holds, releases and requeues while a task works.
pub(crate) const OPERATOR: Bounds = Bounds {
    name: "operator",
    scopes: &[0, 0],
    tasks: 1,
    age: 3,
    horizon: 4,
    left: Left {
        timeouts: 1,
        crashes: 1,
        holds: 1,
        skips: 1,
        requeues: 1,
        ..NONE
    },
    witnesses: &[
        ALL_RECORDED,
        DUPLICATE,
        REGRESSION,
        REQUEUED_RECORDED,
        RELEASED_SUCCESSOR,
    ],
    ..COMPETITION
};

/// A scope whose head ends blocked, sorted before one that is ready.
pub(crate) const SCOPES: Bounds = Bounds {
    name: "scopes",
    scopes: &[0, 0, 1],
    tasks: 1,
    age: 4,
    horizon: 4,
    left: Left {
        refusals: 2,
        ..NONE
    },
    witnesses: &[ALL_RECORDED, READY_BEHIND_BLOCKED, EXHAUSTED_UNACCEPTED],
    ..COMPETITION
};

/// Business transactions, a freeze and a change of authority beside a task.
pub(crate) const AUTHORITY: Bounds = Bounds {
    name: "authority",
    scopes: &[0, 1],
    appends: Appends::InOrder,
    tasks: 1,
    age: 2,
    horizon: 2,
    left: Left {
        freezes: 1,
        switches: 1,
        ..NONE
    },
    witnesses: &[ALL_RECORDED, FROZEN_WITH_EVENTS, DRAINED_FROZEN, CDC_EVENT],
    ..COMPETITION
};

/// A smaller sequence commits after its successors, with a scan that remembers.
pub(crate) const LATE_COMMITS: Bounds = Bounds {
    name: "late commits",
    scopes: &[0, 0, 0],
    appends: Appends::AnyOrder,
    marks: true,
    age: 2,
    horizon: 2,
    left: NONE,
    witnesses: &[
        ALL_RECORDED,
        REGRESSION,
        LATE_COMMIT_RECORDED,
        LATE_COMMIT_CLAIMED,
    ],
    ..COMPETITION
};
