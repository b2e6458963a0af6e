//! The scan for eligible rows: lane by lane, one probe a scope, from where it stopped.
//!
//! Invariant: a place is this handle's own hint of where to look next. It is never stored and never
//! part of the gate: a wrong place costs a look, not an order. Each look is bounded, however many
//! scopes are blocked, and every lane gets its share of what one look finds. What was found and not
//! tried is found again by the next look.

use super::heads::{Head, Known};
use crate::rows::{ReadError, StoredRow};
use application_core::event::StoredOutboxEvent;
use application_core::ports::{KnownRecord, PartitionShare};
use domain_core::hashing::Sha256Digest;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// How far each track with eligible rows had been followed before.
    before: HashMap<Track, Progress>,
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
pub(crate) struct Places {
    tracks: Mutex<HashMap<Track, Progress>>,
    /// Looks so far; each begins with another lane, and with the other way after all lanes.
    looks: AtomicUsize,
}

/// What a scan asks for.
pub(crate) struct Search<'r> {
    pub(crate) share: PartitionShare,
    pub(crate) known: &'r [KnownRecord],
    /// Eligible rows to find at most.
    pub(crate) limit: usize,
    /// Whether documents are wanted.
    pub(crate) documents: bool,
}

/// What the looks at one lane found.
#[derive(Default)]
struct LaneFound {
    heads: Vec<FoundHead>,
    tolerant: Vec<FoundHead>,
    /// Whether the last query ended before the end of the share.
    more: bool,
    /// Whether it ended because it had found as many as it was asked for.
    full: bool,
}

impl LaneFound {
    fn count(&self) -> usize {
        self.heads.len() + self.tolerant.len()
    }

    fn into_turns(self, tolerant_first: bool) -> Vec<FoundHead> {
        let mut ways = vec![self.heads, self.tolerant];
        if tolerant_first {
            ways.reverse();
        }
        take_turns(ways)
    }
}

/// One query of one lane.
#[derive(Clone, Copy)]
struct LaneQuery<'r> {
    search: &'r Search<'r>,
    known: &'r Known<'r>,
    lane: i16,
    limit: usize,
}

impl Places {
    /// One bounded look at each lane for its slice of the limit, and another at lanes that have
    /// more, for what the other lanes leave. Where a look reaches the end of the share with nothing
    /// found after having begun inside it, it goes on once from the start.
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
        let mut lanes: Vec<i16> = lanes.into_iter().collect();
        let count = lanes.len().max(1);
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        lanes.rotate_left(look % count);
        let known = Known::of(search.known);
        let slice = search.limit.div_ceil(count);
        let mut before = HashMap::new();
        let mut by_lane = Vec::new();
        for lane in &lanes {
            let mut found = LaneFound::default();
            let query = LaneQuery {
                search,
                known: &known,
                lane: *lane,
                limit: slice,
            };
            self.look_once(connection, &query, &mut found, &mut before)
                .await?;
            if found.more && found.count() == 0 && self.at_start(search.share, *lane) {
                self.look_once(connection, &query, &mut found, &mut before)
                    .await?;
            }
            by_lane.push(found);
        }
        for (place, lane) in lanes.iter().enumerate() {
            let taken: usize = by_lane.iter().map(LaneFound::count).sum();
            let left = search.limit.saturating_sub(taken);
            if left == 0 {
                break;
            }
            if by_lane[place].full {
                let query = LaneQuery {
                    search,
                    known: &known,
                    lane: *lane,
                    limit: left,
                };
                self.look_once(connection, &query, &mut by_lane[place], &mut before)
                    .await?;
            }
        }
        let finished = by_lane.iter().all(|found| !found.more);
        let tolerant_first = look / count % 2 == 1;
        let turns = by_lane
            .into_iter()
            .map(|found| found.into_turns(tolerant_first));
        let mut found = Found {
            heads: take_turns(turns.collect()),
            finished,
            before,
        };
        if found.heads.len() > search.limit {
            self.tried(&found, search.limit);
            found.heads.truncate(search.limit);
            found.finished = false;
        }
        Ok(found)
    }

    /// Nothing of what was found was tried, or whether it was taken is not known: the next look
    /// begins where this one did.
    pub(crate) fn untried(&self, found: &Found) {
        for (track, before) in &found.before {
            self.set(*track, before.clone());
        }
    }

    /// Of what was found only the first `tried` rows were tried: the others are found again.
    pub(crate) fn tried(&self, found: &Found, tried: usize) {
        let (tried, untried) = found.heads.split_at(tried.min(found.heads.len()));
        let again: HashSet<Track> = untried.iter().map(|found| found.track).collect();
        for track in again {
            let last = tried.iter().rev().find(|found| found.track == track);
            let before = found.before.get(&track).cloned().unwrap_or_default();
            self.set(
                track,
                Progress {
                    after: last.map(|found| found.head.place.clone()).or(before.after),
                    nothing_so_far: before.nothing_so_far && last.is_none(),
                },
            );
        }
    }

    /// Something of this share was taken.
    pub(crate) fn taken(&self, share: PartitionShare) {
        let mut places = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        for (track, progress) in places.iter_mut() {
            if track.share == share {
                progress.nothing_so_far = false;
            }
        }
    }

    /// One query.
    async fn look_once(
        &self,
        connection: &mut PgConnection,
        query: &LaneQuery<'_>,
        found: &mut LaneFound,
        before: &mut HashMap<Track, Progress>,
    ) -> Result<(), ReadError> {
        let LaneQuery {
            search,
            known,
            lane,
            limit,
        } = *query;
        let track = |way| Track {
            share: search.share,
            lane,
            way,
        };
        let began = [Way::Heads, Way::Tolerant].map(|way| self.get(track(way)));
        let start = Place {
            key: format!("{:02x}", search.share.first()),
            sequence: -1,
            index: -1,
        };
        let [heads, tolerant] =
            [0, 1].map(|way: usize| began[way].after.as_ref().unwrap_or(&start));
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
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .bind(LOOKED_AT)
            .bind(&known.contracts)
            .bind(&known.versions)
            .bind(&known.schemas)
            .bind(&known.destinations)
            .bind(&known.bindings)
            .bind(search.documents)
            .fetch_all(connection)
            .await?;
        found.more = false;
        found.full = false;
        for (way, began) in [Way::Heads, Way::Tolerant].into_iter().zip(began) {
            let mut last = None;
            let mut bounded = false;
            let mut eligible = 0;
            let heads = match way {
                Way::Heads => &mut found.heads,
                Way::Tolerant => &mut found.tolerant,
            };
            for row in &rows {
                let row = ScannedRow(row);
                if row.way()? != way {
                    continue;
                }
                bounded |= row.0.try_get::<bool, _>("bounded")?;
                last = Some(row.place()?);
                if row.is_eligible()? {
                    eligible += 1;
                    heads.push(row.found(track(way))?);
                }
            }
            if eligible > 0 {
                before.entry(track(way)).or_insert_with(|| began.clone());
            }
            let full = eligible >= limit;
            found.full |= full;
            let stopped = bounded || full;
            found.more |= stopped;
            self.set(
                track(way),
                if stopped {
                    Progress {
                        nothing_so_far: began.after.is_none() || began.nothing_so_far,
                        after: last,
                    }
                } else {
                    // The end of the share. What lies before the place that the look began at is
                    // worth another look, unless nothing of it could be taken either.
                    found.more |= began.after.is_some() && !began.nothing_so_far;
                    Progress::default()
                },
            );
        }
        Ok(())
    }

    /// Whether both ways through a lane begin anew.
    fn at_start(&self, share: PartitionShare, lane: i16) -> bool {
        [Way::Heads, Way::Tolerant]
            .into_iter()
            .all(|way| self.get(Track { share, lane, way }).after.is_none())
    }

    fn get(&self, track: Track) -> Progress {
        self.tracks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&track)
            .cloned()
            .unwrap_or_default()
    }

    fn set(&self, track: Track, progress: Progress) {
        self.tracks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(track, progress);
    }
}

/// The lane of a destination, as the database computes it.
fn lane(destination: &str) -> i16 {
    i16::from(Sha256Digest::of(destination.as_bytes()).as_bytes()[0])
}

/// The rows of several lists, one of each in turn.
fn take_turns(lists: Vec<Vec<FoundHead>>) -> Vec<FoundHead> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut taken = Vec::new();
    loop {
        let before = taken.len();
        for list in &mut lists {
            taken.extend(list.next());
        }
        if taken.len() == before {
            return taken;
        }
    }
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

    fn place(key: &str) -> Place {
        Place {
            key: key.to_owned(),
            ..Place::default()
        }
    }

    fn found(lane: i16, key: &str) -> FoundHead {
        FoundHead {
            head: Head {
                event_id: key.to_owned(),
                generation: 1,
                row_version: 1,
                place: place(key),
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

    fn ids(found: &[FoundHead]) -> Vec<&str> {
        found
            .iter()
            .map(|found| found.head.event_id.as_str())
            .collect()
    }

    #[test]
    fn lists_take_turns_and_what_is_left_goes_to_the_others() {
        let taken = take_turns(vec![
            vec![found(1, "a1"), found(1, "a2"), found(1, "a3")],
            vec![found(2, "b1")],
            Vec::new(),
        ]);
        assert_eq!(ids(&taken), ["a1", "b1", "a2", "a3"]);
    }

    #[test]
    fn what_was_not_tried_is_found_again() {
        let places = Places::default();
        let looked = Found {
            heads: vec![
                found(1, "a1"),
                found(2, "b1"),
                found(1, "a2"),
                found(2, "b2"),
            ],
            finished: false,
            before: HashMap::from([(
                found(2, "").track,
                Progress {
                    after: Some(place("b0")),
                    nothing_so_far: true,
                },
            )]),
        };
        let after = |lane| places.get(found(lane, "").track).after;
        places.tried(&looked, 1);
        assert_eq!((after(1), after(2)), (Some(place("a1")), Some(place("b0"))));
        places.tried(&looked, 3);
        assert_eq!(after(2), Some(place("b1")));
        // Everything of the first lane was tried; where its look ended stands.
        assert_eq!(after(1), Some(place("a1")));
    }
}
