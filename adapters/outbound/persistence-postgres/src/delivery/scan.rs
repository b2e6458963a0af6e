//! The scan for eligible rows: lane by lane, one probe a scope, from where it stopped.
//!
//! Invariant: a place is this handle's own hint of where to look next. It is never stored and never
//! part of the gate: a wrong place costs a look, not an order. Each look is bounded, however many
//! scopes are blocked, and every lane gets its share of what one look finds. What was found and not
//! tried is found again by the next look.

use super::heads::{Head, Known};
use super::lane::{self, LaneFound, LaneQuery};
use super::pace::{Next, Pace};
use crate::rows::ReadError;
use application_core::event::StoredOutboxEvent;
use application_core::ports::{KnownRecord, PartitionShare};
use sqlx::PgConnection;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

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
    pub(super) key: String,
    pub(super) sequence: i64,
    pub(super) index: i32,
}

impl Place {
    /// Before every row of a share.
    fn start(share: PartitionShare) -> Self {
        Self {
            key: format!("{:02x}", share.first()),
            sequence: -1,
            index: -1,
        }
    }
}

/// Which way through which lane of which share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Track {
    pub(super) share: PartitionShare,
    pub(super) lane: i16,
    pub(super) way: Way,
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
    /// Whether only the youngest rows were looked at, which moves no place.
    glance: bool,
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
    paces: Mutex<HashMap<PartitionShare, Pace>>,
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

/// The key before which a share ends.
fn end(share: PartitionShare) -> String {
    match share.last() {
        u8::MAX => "g".to_owned(),
        last => format!("{:02x}", last + 1),
    }
}

impl Places {
    /// One bounded look: at the next part of the share, or at the youngest rows while a long search
    /// has found nothing.
    pub(crate) async fn look(
        &self,
        connection: &mut PgConnection,
        search: &Search<'_>,
    ) -> Result<Found, ReadError> {
        let next = self.paced(search.share, |pace| pace.next(Instant::now()));
        if next == Next::Search {
            let found = self.search(connection, search).await?;
            if found.heads.is_empty() {
                self.found_nothing(search.share, found.finished);
            } else {
                self.paced(search.share, Pace::found);
            }
            return Ok(found);
        }
        let heads = lane::glance(connection, search).await?;
        if !heads.is_empty() {
            self.paced(search.share, Pace::found);
        }
        Ok(Found {
            finished: next == Next::GlanceAtRest && heads.is_empty(),
            heads,
            before: HashMap::new(),
            glance: true,
        })
    }

    /// Who looks at everything rests with whoever has just searched a share.
    fn found_nothing(&self, share: PartitionShare, finished: bool) {
        let rests = self.paced(share, |pace| pace.nothing(finished, Instant::now()));
        if let Some(until) = rests {
            self.paced(PartitionShare::WHOLE, |pace| pace.rest(until));
        }
    }

    fn paced<T>(&self, share: PartitionShare, of: impl FnOnce(&mut Pace) -> T) -> T {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        of(paces.entry(share).or_default())
    }

    /// One bounded look at each lane for its slice of the limit, and another at lanes that have
    /// more, for what the other lanes leave. Where a look reaches the end of the share after having
    /// begun inside it, it goes on once from the start; once something is found, to the place where
    /// it began.
    async fn search(
        &self,
        connection: &mut PgConnection,
        search: &Search<'_>,
    ) -> Result<Found, ReadError> {
        let lanes: BTreeSet<i16> = search
            .known
            .iter()
            .map(|record| lane::number(record.destination.as_str()))
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
            let began = query.ways().map(|track| self.get(track));
            self.look_once(connection, &query, &mut found, &mut before)
                .await?;
            if found.more && self.at_start(search.share, *lane) {
                if found.count() == 0 {
                    self.look_once(connection, &query, &mut found, &mut before)
                        .await?;
                } else if let Some(left) = slice.checked_sub(found.count()).filter(|left| *left > 0)
                {
                    let query = LaneQuery {
                        limit: left,
                        ..query
                    };
                    self.close_circle(connection, &query, began, &mut found, &mut before)
                        .await?;
                }
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
            glance: false,
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
        if found.glance {
            return;
        }
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

    /// One query from where the lane's walk stands to the end of the share.
    async fn look_once(
        &self,
        connection: &mut PgConnection,
        query: &LaneQuery<'_>,
        found: &mut LaneFound,
        before: &mut HashMap<Track, Progress>,
    ) -> Result<(), ReadError> {
        let tracks = query.ways();
        let began = tracks.map(|track| self.get(track));
        let start = Place::start(query.search.share);
        let places = [0, 1].map(|way: usize| began[way].after.as_ref().unwrap_or(&start));
        let end = end(query.search.share);
        let rows = query.select(connection, places, [&end, &end]).await?;
        found.more = false;
        found.full = false;
        for (track, began) in tracks.into_iter().zip(began) {
            let seen = found.take_in(&rows, track, query.limit)?;
            if seen.eligible > 0 {
                before.entry(track).or_insert_with(|| began.clone());
            }
            self.set(
                track,
                if seen.stopped {
                    Progress {
                        nothing_so_far: began.after.is_none() || began.nothing_so_far,
                        after: seen.last,
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

    /// One query from the start of the share to where this look began, so that a window is filled
    /// although the share ends within it. Rows that wait for nobody are left for the next look where
    /// they share the key at which the circle closes.
    async fn close_circle(
        &self,
        connection: &mut PgConnection,
        query: &LaneQuery<'_>,
        began: [Progress; 2],
        found: &mut LaneFound,
        before: &mut HashMap<Track, Progress>,
    ) -> Result<(), ReadError> {
        let start = Place::start(query.search.share);
        let [heads, tolerant] = began.each_ref().map(|began| {
            let after = began.after.as_ref();
            after.filter(|_| !began.nothing_so_far)
        });
        // No digit of a key is greater than `~`, so the head that was found last is before the end.
        let to = [
            heads.map_or_else(|| start.key.clone(), |place| format!("{}~", place.key)),
            tolerant.unwrap_or(&start).key.clone(),
        ];
        let rows = query
            .select(connection, [&start; 2], [&to[0], &to[1]])
            .await?;
        found.more = false;
        found.full = false;
        for (track, began) in query.ways().into_iter().zip(began) {
            let seen = found.take_in(&rows, track, query.limit)?;
            let progress = if seen.stopped {
                Progress {
                    after: seen.last,
                    nothing_so_far: false,
                }
            } else {
                began.clone()
            };
            if seen.eligible > 0 {
                before.entry(track).or_insert(began);
            }
            self.set(track, progress);
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

/// The rows of several lists, one of each in turn.
pub(super) fn take_turns(lists: Vec<Vec<FoundHead>>) -> Vec<FoundHead> {
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
            glance: false,
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
