//! What may happen to a store.
//!
//! Invariant: every three bytes are an operation, so any generator reaches all of them and a
//! shrunk sequence is again one; no operation rests on how long something takes.

use domain_core::delivery::DispatchAuthority;

/// How many events a sequence plays with.
pub(super) const SLOTS: u8 = 8;

/// One step of a sequence. `slot` names one of the eight events: 0 to 2 are one ordering scope, 3
/// and 4 another, 5 and 6 are reorder-tolerant, and 7 is alone, of the first scope's aggregate but
/// for another destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Appends the event, under the write admission or past it.
    Append {
        /// Which.
        slot: u8,
        /// Under the write admission.
        gated: bool,
    },
    /// Tx B for a process that can send this event alone.
    Claim {
        /// Which.
        slot: u8,
        /// With what budget.
        budget: Budget,
    },
    /// Tx B again and again until nothing is left.
    ClaimAll,
    /// Windows of this many records until nothing is left.
    Windows {
        /// Permits of each window.
        size: u8,
        /// With what budget.
        budget: Budget,
    },
    /// Renews a claim.
    Renew {
        /// Of which event.
        slot: u8,
        /// Under which identity.
        holder: Holding,
    },
    /// Lets a live claim lapse.
    Lapse {
        /// Of which event.
        slot: u8,
    },
    /// Tx C.
    Record {
        /// Of which event.
        slot: u8,
        /// Under which identity.
        holder: Holding,
        /// What happened.
        answer: Answer,
    },
    /// Tx C of a window with every event's latest attempt.
    RecordAll {
        /// What happened to each.
        answer: Answer,
    },
    /// A late acknowledgement of an event's first or latest attempt.
    Late {
        /// Of which event.
        slot: u8,
        /// Of its first attempt.
        first: bool,
    },
    /// An operator's command.
    Dispose {
        /// On which event.
        slot: u8,
        /// What.
        what: What,
        /// What the operator saw.
        seen: Seen,
    },
    /// Raises or lifts a claim fence.
    Fence {
        /// What it covers.
        cover: Cover,
        /// Raises it.
        raise: bool,
    },
    /// Prepares an epoch and activates it.
    Epoch {
        /// Whose it is.
        authority: DispatchAuthority,
        /// Names the right ACTIVE epoch.
        right: bool,
    },
    /// Freezes business writes.
    Freeze {
        /// Names the right generation.
        right: bool,
    },
    /// Resumes them.
    Resume {
        /// Names the right generation.
        right: bool,
    },
    /// Ends a freeze that was cut off.
    Thaw {
        /// Names the right generation.
        right: bool,
    },
    /// Places or lifts a legal hold.
    LegalHold {
        /// On which event.
        slot: u8,
        /// Places it.
        place: bool,
    },
    /// Applies retention until nothing more goes.
    Reap {
        /// With ages that have passed.
        aged: bool,
    },
}

/// The budget of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Time and attempts.
    Enough,
    /// A whole attempt does not fit before any deadline.
    NoTime,
    /// One attempt is all there is.
    OneAttempt,
}

/// Under which identity a worker speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// The event's latest attempt.
    Latest,
    /// The one before.
    Earlier,
    /// The latest attempt under another token.
    OtherToken,
    /// The latest attempt under another owner.
    OtherOwner,
    /// Another attempt under the latest token.
    OtherAttempt,
}

/// What became of a send, and what the relay decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Acknowledged and recorded.
    Acknowledged,
    /// Rejected; a retry that is due at once.
    RetrySoon,
    /// Rejected; a retry that is never due here.
    RetryLate,
    /// Nobody knows; a retry that is due at once.
    OpenRetry,
    /// Rejected for good.
    Exhausted,
    /// Nobody knows, and no more attempts.
    OpenExhausted,
    /// Acknowledged elsewhere.
    Misrouted,
}

/// A disposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `HOLD`
    Hold,
    /// `SKIP_WITH_GAP`
    Skip,
    /// `COMPENSATE`, by the next event or by the event itself.
    Compensate {
        /// By the event itself.
        itself: bool,
    },
    /// `ACCEPT_LEGACY`
    AcceptLegacy,
    /// `REMEDIATE_AND_REQUEUE`
    Requeue,
    /// The same after the horizon.
    RequeueTooLate,
}

/// What an operator saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The row as it is.
    Right,
    /// An older row version.
    RowVersion,
    /// Another generation.
    Generation,
}

/// What a fence covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Everything.
    Everything,
    /// The destination of an event.
    Destination(u8),
    /// The ordering scope of an event.
    Scope(u8),
    /// An event.
    Event(u8),
}

impl Op {
    /// The one event that the operation is about, if it is one.
    pub(super) fn slot(self) -> Option<u8> {
        match self {
            Self::Append { slot, .. }
            | Self::Claim { slot, .. }
            | Self::Renew { slot, .. }
            | Self::Lapse { slot }
            | Self::Record { slot, .. }
            | Self::Late { slot, .. }
            | Self::Dispose { slot, .. }
            | Self::LegalHold { slot, .. } => Some(slot),
            _ => None,
        }
    }

    /// The operation of three bytes: what, on which event, and how.
    pub fn decode((what, slot, how): (u8, u8, u8)) -> Self {
        let slot = slot % SLOTS;
        let flag = how % 4 != 0;
        match what % 32 {
            0..=6 => Self::Append { slot, gated: flag },
            7 | 8 => Self::Claim {
                slot,
                budget: budget(how),
            },
            9..=11 => Self::ClaimAll,
            12 | 13 => Self::Windows {
                size: 1 + slot,
                budget: budget(how),
            },
            14 => Self::Renew {
                slot,
                holder: holding(how),
            },
            15 => Self::Lapse { slot },
            16..=18 => Self::Record {
                slot,
                holder: holding(how >> 3),
                answer: answer(how),
            },
            19 | 20 => Self::RecordAll {
                answer: answer(how),
            },
            21 => Self::Late { slot, first: flag },
            22..=25 => Self::Dispose {
                slot,
                what: disposition(how),
                seen: match how >> 5 {
                    0 => Seen::RowVersion,
                    1 => Seen::Generation,
                    _ => Seen::Right,
                },
            },
            26 => Self::Fence {
                cover: match how % 4 {
                    0 => Cover::Everything,
                    1 => Cover::Destination(slot),
                    2 => Cover::Scope(slot),
                    _ => Cover::Event(slot),
                },
                raise: how & 4 == 0,
            },
            27 => Self::Epoch {
                authority: match how % 8 {
                    0 => DispatchAuthority::Cdc,
                    1 => DispatchAuthority::LegacyPolling,
                    _ => DispatchAuthority::PollingV2,
                },
                right: how < 224,
            },
            28 => match how % 4 {
                0 | 1 => Self::Freeze { right: how < 192 },
                2 => Self::Resume { right: how < 192 },
                _ => Self::Thaw { right: how < 128 },
            },
            29 => Self::Resume { right: true },
            30 => Self::LegalHold {
                slot,
                place: how % 2 == 0,
            },
            _ => Self::Reap { aged: flag },
        }
    }
}

fn budget(how: u8) -> Budget {
    match how % 8 {
        0 => Budget::NoTime,
        1 | 2 => Budget::OneAttempt,
        _ => Budget::Enough,
    }
}

fn holding(how: u8) -> Holding {
    match how % 16 {
        0 => Holding::Earlier,
        1 => Holding::OtherToken,
        2 => Holding::OtherOwner,
        3 => Holding::OtherAttempt,
        _ => Holding::Latest,
    }
}

fn answer(how: u8) -> Answer {
    match how % 8 {
        0 | 1 => Answer::Acknowledged,
        2 => Answer::RetrySoon,
        3 => Answer::RetryLate,
        4 => Answer::OpenRetry,
        5 => Answer::Exhausted,
        6 => Answer::OpenExhausted,
        _ => Answer::Misrouted,
    }
}

fn disposition(how: u8) -> What {
    match how % 16 {
        0..=3 => What::Hold,
        4..=6 => What::Skip,
        7 => What::Compensate { itself: true },
        8 | 9 => What::Compensate { itself: false },
        10 => What::AcceptLegacy,
        11 => What::RequeueTooLate,
        _ => What::Requeue,
    }
}
