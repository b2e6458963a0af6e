//! How much happens in one exploration.
//!
//! Invariant: every bound is finite, and time ends only after every deadline and lease has.

/// A claim's lease, in seconds of the model's clock.
pub(crate) const LEASE: u8 = 2;
/// What a whole attempt may take; shorter than the lease.
pub(crate) const ATTEMPT: u8 = 1;
/// The wait before a retry.
pub(crate) const RETRY_DELAY: u8 = 1;
/// Attempts that a generation has.
pub(crate) const MAXIMUM_ATTEMPTS: u8 = 2;

/// How often each fault or intervention may still happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    /// Workers that vanish.
    pub(crate) crashes: u8,
    /// Attempts whose acknowledgement is not awaited to the end.
    pub(crate) timeouts: u8,
    /// Records that the broker refuses for now.
    pub(crate) refusals: u8,
    /// Commits of Tx C whose reply is lost.
    pub(crate) lost_replies: u8,
    /// Renewals of a lease.
    pub(crate) renewals: u8,
    /// Holds by an operator.
    pub(crate) holds: u8,
    /// Audited releases without a publication.
    pub(crate) skips: u8,
    /// Audited new generations.
    pub(crate) requeues: u8,
    /// Freezes of business writes.
    pub(crate) freezes: u8,
    /// Activations of another authority.
    pub(crate) switches: u8,
}

/// The events of one exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appends {
    /// All are committed at the start.
    Done,
    /// Business transactions append them while the relay runs, each scope in its order.
    InOrder,
    /// The same, and a smaller sequence may commit after a larger one.
    AnyOrder,
}

/// One exploration.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Its name in the figures.
    pub(crate) name: &'static str,
    /// The scope of each event; sequences follow the position.
    pub(crate) scopes: &'static [u8],
    /// How the events get there.
    pub(crate) appends: Appends,
    /// Relay tasks.
    pub(crate) tasks: usize,
    /// Whether the scan remembers where the open part begins.
    pub(crate) marks: bool,
    /// The maximum automatic age of a generation.
    pub(crate) age: u8,
    /// The event's requeue horizon.
    pub(crate) horizon: u8,
    /// Faults and interventions.
    pub(crate) left: Left,
    /// What must be reachable.
    pub(crate) witnesses: &'static [&'static str],
}

impl Bounds {
    /// The last second: every claim made before the last deadline has lapsed, however often it was
    /// renewed, and every retry is due.
    pub(crate) fn end(&self) -> u8 {
        self.horizon - ATTEMPT + LEASE + self.left.renewals * (LEASE - 1) + (RETRY_DELAY - 1)
    }
}
