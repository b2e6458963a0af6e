//! How far one track of the scan was followed.
//!
//! Invariant: the walk is a circle. It is complete once every row was looked at since something was
//! last found, in however many looks; only then may a scan say that there is nothing.

use application_core::ports::PartitionShare;

/// A row's place in a track.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) key: String,
    pub(super) sequence: i64,
    pub(super) index: i64,
}

impl Place {
    /// Before every row of a share.
    pub(super) fn start(share: PartitionShare) -> Self {
        Self {
            key: format!("{:02x}", share.first()),
            sequence: -1,
            index: -1,
        }
    }

    /// After every row of a share.
    fn end(share: PartitionShare) -> Self {
        Self {
            key: match share.last() {
                // No hexadecimal digit is greater than `f`.
                u8::MAX => "g".to_owned(),
                last => format!("{:02x}", last + 1),
            },
            sequence: -1,
            index: -1,
        }
    }
}

/// Where a walk stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    /// The last row looked at.
    pub(super) after: Place,
    /// The first row that cannot be read since something was last found: which row and rule.
    pub(super) corrupt: Option<String>,
    /// Where the circle closes: nothing was found between here and `after`.
    origin: Place,
    /// Whether the end of the share was passed since `origin`.
    wrapped: bool,
    /// The last row that this look found; the next look's circle closes there.
    found: Option<Place>,
    /// Whether the circle is closed.
    complete: bool,
}

impl Progress {
    pub(super) fn at(place: Place) -> Self {
        Self {
            after: place.clone(),
            corrupt: None,
            origin: place,
            wrapped: false,
            found: None,
            complete: false,
        }
    }

    /// Where the next statement ends; `None` when the circle is closed.
    pub(super) fn end(&self, share: PartitionShare) -> Option<Place> {
        match (self.complete, self.wrapped) {
            (true, _) => None,
            (false, true) => Some(self.origin.clone()),
            (false, false) => Some(Place::end(share)),
        }
    }

    /// A row that cannot go was looked at.
    pub(super) fn passed(&mut self, place: Place) {
        self.after = place;
    }

    /// A row was found.
    pub(super) fn found(&mut self, place: Place) {
        self.found = Some(place.clone());
        self.corrupt = None;
        self.after = place;
    }

    /// No row is left before the end of the last statement.
    pub(super) fn reached_end(&mut self, share: PartitionShare) {
        let start = Place::start(share);
        if self.wrapped || self.origin <= start {
            self.complete = true;
        } else {
            self.wrapped = true;
            self.after = start;
        }
    }

    /// What the next look begins with.
    pub(super) fn after_look(self) -> Self {
        match (self.found, self.complete) {
            // The circle is closed: the next one begins after what was found last, or here.
            (Some(found), true) => Self::at(found),
            (None, true) => Self::at(self.origin),
            // The rows found, the last one included, are looked at once more before the end.
            (Some(found), false) => Self {
                wrapped: self.wrapped && self.after < found,
                origin: found,
                found: None,
                complete: false,
                after: self.after,
                corrupt: self.corrupt,
            },
            (None, false) => Self {
                found: None,
                complete: false,
                ..self
            },
        }
    }
}
