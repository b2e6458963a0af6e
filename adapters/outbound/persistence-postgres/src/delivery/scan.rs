//! The scan for eligible rows: lane by lane, one probe a scope, from where it stopped.
//!
//! Invariant: a place is this handle's own hint of where to look next. It is never stored and never
//! part of the gate: a wrong place costs a look, not an order. Each look is bounded, however many
//! scopes are blocked, and every lane gets its share of what one look finds.

use super::heads::{Head, Known};
use crate::rows::{ReadError, StoredRow};
use application_core::event::StoredOutboxEvent;
use application_core::ports::{KnownRecord, PartitionShare};
use domain_core::hashing::Sha256Digest;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// Rows that one look takes in on each way through a lane, eligible or not.
const LOOKED_AT: i64 = 4_096;

/// The two ways through a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// The head of each ordering scope.
    Heads,
    /// Events that wait for nobody.
    Tolerant,
}

/// A row's place in a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    key: String,
    sequence: i64,
    index: i32,
}

/// Which way through which lane of which share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Track {
    share: PartitionShare,
    lane: i16,
    way: Way,
}

/// How far a track was followed.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// The last row looked at; `None` at the start of the share.
    after: Option<Place>,
    /// Whether everything from the start of the share to `after` was looked at and nothing taken.
    nothing_so_far: bool,
}

/// What one look found.
pub(crate) struct Found {
    /// Eligible rows with their events, the lanes taking turns.
    pub(crate) heads: Vec<FoundHead>,
    /// Whether the whole share was looked at since something was last taken.
    pub(crate) finished: bool,
}

/// An eligible row.
pub(crate) struct FoundHead {
    pub(crate) head: Head,
    pub(crate) track: Track,
    /// Whether it is a lapsed claim.
    pub(crate) lapsed: bool,
    /// Its event, or what is wrong with the row.
    pub(crate) event: Result<StoredOutboxEvent, String>,
}

/// Where a handle's scans stand.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<Track, Progress>>);

/// What a scan asks for.
pub(crate) struct Search<'r> {
    pub(crate) share: PartitionShare,
    pub(crate) known: &'r [KnownRecord],
    /// Eligible rows to find at most.
    pub(crate) limit: usize,
    /// Whether documents are wanted.
    pub(crate) documents: bool,
}

impl Places {
    /// One bounded look at each lane. Where a look reaches the end of the share with nothing found
    /// after having begun inside it, it goes on once from the start.
    pub(crate) async fn look(
        &self,
        connection: &mut PgConnection,
        search: &Search<'_>,
    ) -> Result<Found, ReadError> {
        let lanes: BTreeSet<i16> = search
            .known
            .iter()
            .map(|record| lane(record.destination.as_str()))
            .collect();
        let known = Known::of(search.known);
        let mut by_lane: Vec<Vec<FoundHead>> = Vec::new();
        let mut finished = true;
        for lane in lanes {
            let mut found = Vec::new();
            let mut more = self
                .look_once(connection, search, &known, lane, &mut found)
                .await?;
            if more && found.is_empty() && self.at_start(search.share, lane) {
                more = self
                    .look_once(connection, search, &known, lane, &mut found)
                    .await?;
            }
            finished &= !more;
            by_lane.push(found);
        }
        Ok(Found {
            heads: take_turns(by_lane, search.limit),
            finished,
        })
    }

    /// Puts the next look behind this row.
    pub(crate) fn passed(&self, found: &FoundHead) {
        self.set(
            found.track,
            Progress {
                after: Some(found.head.place.clone()),
                nothing_so_far: false,
            },
        );
    }

    /// Something of this share was taken.
    pub(crate) fn taken(&self, share: PartitionShare) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (track, progress) in places.iter_mut() {
            if track.share == share {
                progress.nothing_so_far = false;
            }
        }
    }

    /// One query; tells whether it ended before the end of the share.
    async fn look_once(
        &self,
        connection: &mut PgConnection,
        search: &Search<'_>,
        known: &Known<'_>,
        lane: i16,
        found: &mut Vec<FoundHead>,
    ) -> Result<bool, ReadError> {
        let track = |way| Track {
            share: search.share,
            lane,
            way,
        };
        let before = [Way::Heads, Way::Tolerant].map(|way| self.get(track(way)));
        let start = Place {
            key: format!("{:02x}", search.share.first()),
            sequence: -1,
            index: -1,
        };
        let [heads, tolerant] =
            [0, 1].map(|way: usize| before[way].after.as_ref().unwrap_or(&start));
        let end = match search.share.last() {
            u8::MAX => "g".to_owned(),
            last => format!("{:02x}", last + 1),
        };
        let rows = sqlx::query(include_str!("../sql/scan.sql"))
            .bind(lane)
            .bind(&heads.key)
            .bind(&tolerant.key)
            .bind(tolerant.sequence)
            .bind(tolerant.index)
            .bind(&end)
            .bind(i64::try_from(search.limit).unwrap_or(i64::MAX))
            .bind(LOOKED_AT)
            .bind(&known.contracts)
            .bind(&known.versions)
            .bind(&known.schemas)
            .bind(&known.destinations)
            .bind(&known.bindings)
            .bind(search.documents)
            .fetch_all(connection)
            .await?;
        let mut more = false;
        for (way, before) in [Way::Heads, Way::Tolerant].into_iter().zip(before) {
            let mut last = None;
            let mut bounded = false;
            let mut eligible = 0;
            for row in &rows {
                let row = ScannedRow(row);
                if row.way()? != way {
                    continue;
                }
                bounded |= row.0.try_get::<bool, _>("bounded")?;
                last = Some(row.place()?);
                if row.is_eligible()? {
                    eligible += 1;
                    found.push(row.found(track(way))?);
                }
            }
            let stopped = bounded || eligible >= search.limit;
            more |= stopped;
            self.set(
                track(way),
                if stopped {
                    Progress {
                        nothing_so_far: before.after.is_none() || before.nothing_so_far,
                        after: last,
                    }
                } else {
                    // The end of the share. What lies before the place that the look began at is
                    // worth another look, unless nothing of it could be taken either.
                    more |= before.after.is_some() && !before.nothing_so_far;
                    Progress::default()
                },
            );
        }
        Ok(more)
    }

    /// Whether both ways through a lane begin anew.
    fn at_start(&self, share: PartitionShare, lane: i16) -> bool {
        [Way::Heads, Way::Tolerant]
            .into_iter()
            .all(|way| self.get(Track { share, lane, way }).after.is_none())
    }

    fn get(&self, track: Track) -> Progress {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&track)
            .cloned()
            .unwrap_or_default()
    }

    fn set(&self, track: Track, progress: Progress) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(track, progress);
    }
}

/// The lane of a destination, as the database computes it.
fn lane(destination: &str) -> i16 {
    i16::from(Sha256Digest::of(destination.as_bytes()).as_bytes()[0])
}

/// Rows of all lanes, one of each in turn, up to the limit.
fn take_turns(by_lane: Vec<Vec<FoundHead>>, limit: usize) -> Vec<FoundHead> {
    let mut lanes: Vec<_> = by_lane.into_iter().map(Vec::into_iter).collect();
    let mut taken = Vec::new();
    while taken.len() < limit {
        let before = taken.len();
        for lane in &mut lanes {
            taken.extend(lane.next());
        }
        if taken.len() == before {
            break;
        }
    }
    taken.truncate(limit);
    taken
}

/// A row of `scan.sql`.
struct ScannedRow<'r>(&'r PgRow);

impl ScannedRow<'_> {
    fn way(&self) -> Result<Way, sqlx::Error> {
        Ok(match self.0.try_get::<&str, _>("way")? {
            "HEAD" => Way::Heads,
            _ => Way::Tolerant,
        })
    }

    fn place(&self) -> Result<Place, sqlx::Error> {
        Ok(Place {
            key: self.0.try_get("found_key")?,
            sequence: self.0.try_get("found_sequence")?,
            index: self.0.try_get("found_index")?,
        })
    }

    fn is_eligible(&self) -> Result<bool, sqlx::Error> {
        Ok(self.0.try_get::<Option<&str>, _>("event_id")?.is_some())
    }

    fn found(&self, track: Track) -> Result<FoundHead, ReadError> {
        let head = Head {
            event_id: self.0.try_get("found_event_id")?,
            generation: self.0.try_get("delivery_generation")?,
            row_version: self.0.try_get("row_version")?,
            place: self.place()?,
        };
        let event = match StoredRow::new(self.0).and_then(|row| row.event()) {
            Ok(event) => Ok(event),
            Err(ReadError::Corrupt(what)) => Err(what),
            Err(error @ ReadError::Database(_)) => return Err(error),
        };
        Ok(FoundHead {
            lapsed: self.0.try_get::<&str, _>("state")? == "CLAIMED",
            head,
            track,
            event,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lane: i16, key: &str) -> FoundHead {
        FoundHead {
            head: Head {
                event_id: key.to_owned(),
                generation: 1,
                row_version: 1,
                place: Place::default(),
            },
            track: Track {
                share: PartitionShare::WHOLE,
                lane,
                way: Way::Heads,
            },
            lapsed: false,
            event: Err(String::new()),
        }
    }

    #[test]
    fn lanes_take_turns_and_what_is_left_goes_to_the_others() {
        let lanes = || {
            vec![
                vec![found(1, "a1"), found(1, "a2"), found(1, "a3")],
                vec![found(2, "b1")],
                Vec::new(),
            ]
        };
        let taken = |limit| -> Vec<String> {
            take_turns(lanes(), limit)
                .into_iter()
                .map(|found| found.head.event_id)
                .collect()
        };
        assert_eq!(taken(3), ["a1", "b1", "a2"]);
        assert_eq!(taken(9), ["a1", "b1", "a2", "a3"]);
        assert_eq!(taken(0), [""; 0]);
    }
}
