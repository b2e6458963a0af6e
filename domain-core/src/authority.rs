//! Who may write to the outbox, and who may publish from it.
//!
//! Invariant: business writes are admitted in `OPEN` alone; every change of the admission carries
//! the generation it starts from (requirement 004 §§27.1, 30.5).

/// Where a publication epoch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochState {
    /// `PREPARED`: described, not in force.
    Prepared,
    /// `ACTIVE`: at most one.
    Active,
    /// `RETIRED`: never again.
    Retired,
}

impl EpochState {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "PREPARED",
            Self::Active => "ACTIVE",
            Self::Retired => "RETIRED",
        }
    }

    /// The state of a stable name, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Prepared, Self::Active, Self::Retired]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// Whether business write transactions are let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteAdmissionState {
    /// `OPEN`
    Open,
    /// `FREEZING`: new ones refuse at once, earlier ones end.
    Freezing,
    /// `FROZEN`: none is under way.
    Frozen,
}

impl WriteAdmissionState {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Freezing => "FREEZING",
            Self::Frozen => "FROZEN",
        }
    }

    /// The state of a stable name, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Freezing, Self::Frozen]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// The write admission as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAdmission {
    /// The state.
    pub state: WriteAdmissionState,
    /// Counts changes that opened or froze: 1 at first.
    pub generation: i64,
}

/// Something that happens to the write admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionEvent {
    /// The first transaction of a freeze: new writers refuse from its commit on.
    FreezeAnnounced,
    /// The second: every earlier writer has ended.
    WritersDrained,
    /// The second did not get that far in time.
    DrainTimedOut,
    /// Business writes go on.
    Resumed,
}

/// The event does not apply; the admission stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} does not apply to {}", from.as_str())]
pub struct IllegalAdmission {
    /// The state that stays.
    pub from: WriteAdmissionState,
    /// The refused event.
    pub event: AdmissionEvent,
}

impl WriteAdmission {
    /// The admission after `event`. Freezing keeps the generation, so that a freeze that was
    /// interrupted is known by it; frozen, reopened and given up each start the next one.
    ///
    /// # Errors
    /// [`IllegalAdmission`]; nothing changes.
    pub fn next(self, event: AdmissionEvent) -> Result<Self, IllegalAdmission> {
        use WriteAdmissionState::{Freezing, Frozen, Open};
        let (state, generation) = match (self.state, event) {
            (Open, AdmissionEvent::FreezeAnnounced) => (Freezing, self.generation),
            (Freezing, AdmissionEvent::WritersDrained) => (Frozen, self.generation + 1),
            (Freezing, AdmissionEvent::DrainTimedOut) | (Frozen, AdmissionEvent::Resumed) => {
                (Open, self.generation + 1)
            }
            (from, event) => return Err(IllegalAdmission { from, event }),
        };
        Ok(Self { state, generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state against every event.
    #[test]
    fn the_table_is_total_and_exact() {
        use AdmissionEvent::{DrainTimedOut, FreezeAnnounced, Resumed, WritersDrained};
        use WriteAdmissionState::{Freezing, Frozen, Open};
        for (state, row) in [
            (Open, [Some((Freezing, 7)), None, None, None]),
            (Freezing, [None, Some((Frozen, 8)), Some((Open, 8)), None]),
            (Frozen, [None, None, None, Some((Open, 8))]),
        ] {
            for (event, expected) in [FreezeAnnounced, WritersDrained, DrainTimedOut, Resumed]
                .into_iter()
                .zip(row)
            {
                let admission = WriteAdmission {
                    state,
                    generation: 7,
                };
                let next = admission.next(event).ok();
                assert_eq!(
                    next.map(|next| (next.state, next.generation)),
                    expected,
                    "{event:?} on {state:?}"
                );
            }
        }
    }
}
