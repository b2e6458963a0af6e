//! The scan for eligible rows: destination by destination, one index probe an ordering scope, on
//! from where it stopped.
//!
//! Invariant: a place is this store handle's own hint of where to look next. It is never stored and never
//! part of the gate, which is judged again under the write lock. A look is bounded, however many
//! scopes are blocked, and each destination gets its share of what one look finds.

use super::heads::{Candidate, LookedAt, read};
use super::place::{Place, Progress};
use super::{Document, EventError};
use crate::encoding;
use application_core::ports::{KnownRecord, PartitionShare};
use domain_core::identity::LogicalDestinationId;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Rows that one look takes in on each way through a destination, eligible or not.
pub(super) const LOOKED_AT: i64 = 4_096;
/// Rows that one statement returns at most.
const CHUNK: usize = 64;

/// The two ways through a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Way {
    /// The head of each ordering scope.
    Heads,
    /// Events that wait for nobody.
    Tolerant,
}

/// Which way through which destination of which share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Track {
    share: PartitionShare,
    destination: LogicalDestinationId,
    way: Way,
}

/// What a scan asks for.
pub(super) struct Search<'r> {
    pub(super) share: PartitionShare,
    pub(super) known: &'r [KnownRecord],
    /// Eligible rows to find at most.
    pub(super) limit: usize,
    /// A lapsed claim that is found first is found alone, and one that comes later is left.
    pub(super) lapsed_alone: bool,
    pub(super) document: Document,
}

/// What one look found.
pub(super) struct Found {
    /// Eligible rows that can be read.
    pub(super) candidates: Vec<Candidate>,
    /// Eligible rows that cannot.
    pub(super) unreadable: u64,
    /// The first of these since something was last found: which row and rule.
    pub(super) corrupt: Option<String>,
    /// Whether the whole share was looked at since something was last found.
    pub(super) finished: bool,
    /// How far the tracks had been followed before.
    before: HashMap<Track, Progress>,
}

/// Where the scans of one store handle stand.
#[derive(Debug, Default)]
pub(crate) struct Places {
    tracks: Mutex<HashMap<Track, Progress>>,
    /// Looks so far; each begins with another track.
    looks: AtomicUsize,
}

/// How a walk along one track ended.
#[derive(PartialEq, Eq)]
enum Ended {
    /// Every row of the track was looked at since something was last found.
    Complete,
    /// As many rows were found as may be.
    Full,
    /// The bound of a look, or a lapsed claim that must wait.
    Stopped,
}

/// One track's walk within one look.
struct Walk<'w> {
    track: &'w Track,
    progress: Progress,
    /// Rows that may still be looked at.
    budget: i64,
}

impl Places {
    /// One bounded look.
    pub(super) async fn look(
        &self,
        connection: &mut SqliteConnection,
        search: &Search<'_>,
    ) -> Result<Found, EventError> {
        let mut walks = Vec::new();
        let tracks = self.tracks_of(search);
        let mut found = Found {
            candidates: Vec::new(),
            unreadable: 0,
            corrupt: None,
            finished: true,
            before: HashMap::new(),
        };
        let known = encoding::known(search.known);
        let slice = search.limit.div_ceil(tracks.len().max(1));
        for track in &tracks {
            let progress = self.progress(track);
            found.before.insert(track.clone(), progress.clone());
            let mut walk = Walk {
                track,
                progress,
                budget: LOOKED_AT,
            };
            let ended = walk
                .go(connection, search, &known, slice, &mut found)
                .await?;
            walks.push((walk, ended));
        }
        // What the other tracks left of the limit goes to those that have more.
        for (walk, ended) in &mut walks {
            if *ended == Ended::Full {
                let left = search.limit - found.candidates.len();
                *ended = walk
                    .go(connection, search, &known, left, &mut found)
                    .await?;
            }
        }
        for (walk, ended) in walks {
            found.finished &= ended == Ended::Complete;
            if found.corrupt.is_none() {
                found.corrupt.clone_from(&walk.progress.corrupt);
            }
            self.set(walk.track.clone(), walk.progress.after_look());
        }
        Ok(found)
    }

    /// Nothing of what was found was taken, or whether it was is not known: the next look begins
    /// where this one did.
    pub(super) fn untried(&self, found: &Found) {
        for (track, before) in &found.before {
            self.set(track.clone(), before.clone());
        }
    }

    /// Every track of a search, in turns.
    fn tracks_of(&self, search: &Search<'_>) -> Vec<Track> {
        let destinations: BTreeSet<_> = search
            .known
            .iter()
            .map(|record| &record.destination)
            .collect();
        let mut tracks: Vec<Track> = destinations
            .into_iter()
            .flat_map(|destination| {
                [Way::Heads, Way::Tolerant].map(|way| Track {
                    share: search.share,
                    destination: destination.clone(),
                    way,
                })
            })
            .collect();
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        if !tracks.is_empty() {
            let first = look % tracks.len();
            tracks.rotate_left(first);
        }
        tracks
    }

    fn progress(&self, track: &Track) -> Progress {
        self.tracks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(track)
            .cloned()
            .unwrap_or_else(|| Progress::at(Place::start(track.share)))
    }

    fn set(&self, track: Track, progress: Progress) {
        self.tracks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(track, progress);
    }
}

impl Walk<'_> {
    /// Goes on until `most` more rows are found, the budget is used up, or the track is complete.
    async fn go(
        &mut self,
        connection: &mut SqliteConnection,
        search: &Search<'_>,
        known: &str,
        most: usize,
        found: &mut Found,
    ) -> Result<Ended, EventError> {
        let mut left = most.min(search.limit - found.candidates.len());
        loop {
            if left == 0 {
                return Ok(Ended::Full);
            }
            if self.budget == 0 || alone(search, found) {
                return Ok(Ended::Stopped);
            }
            let Some(end) = self.progress.end(self.track.share) else {
                return Ok(Ended::Complete);
            };
            let rows = left.min(CHUNK);
            let seen = self.select(connection, known, rows, &end).await?;
            let mut looked = 0;
            for row in &seen {
                let row = LookedAt::of(row)?;
                let place = row.place.clone();
                if row.eligible && row.lapsed && search.lapsed_alone && !found.candidates.is_empty()
                {
                    return Ok(Ended::Stopped);
                }
                looked = row.looked;
                if !row.eligible {
                    self.progress.passed(place);
                    continue;
                }
                match read(connection, &row, search.document).await {
                    Ok(candidate) => {
                        self.progress.found(place);
                        found.candidates.push(candidate);
                        left -= 1;
                        if alone(search, found) {
                            return Ok(Ended::Stopped);
                        }
                    }
                    Err(EventError::Corrupt(what)) => {
                        found.unreadable += 1;
                        self.progress.passed(place);
                        self.progress.corrupt.get_or_insert(what);
                    }
                    Err(error @ EventError::Database(_)) => return Err(error),
                }
            }
            if seen.len() < rows && looked < self.budget {
                // Rows behind the last one that could go were looked at as well and are not counted,
                // so a look that begins anew takes in twice the bound at most.
                self.progress.reached_end(self.track.share);
            }
            self.budget -= looked;
        }
    }

    async fn select(
        &self,
        connection: &mut SqliteConnection,
        known: &str,
        rows: usize,
        end: &Place,
    ) -> Result<Vec<SqliteRow>, EventError> {
        let after = &self.progress.after;
        let query = match self.track.way {
            Way::Heads => sqlx::query(include_str!("../sql/scan_heads.sql")),
            Way::Tolerant => sqlx::query(include_str!("../sql/scan_tolerant.sql")),
        };
        let query = query
            .bind(self.track.destination.as_str())
            .bind(&after.key)
            .bind(&end.key)
            .bind(i64::try_from(rows).unwrap_or(i64::MAX))
            .bind(self.budget)
            .bind(known);
        let query = match self.track.way {
            Way::Heads => query,
            Way::Tolerant => query
                .bind(after.sequence)
                .bind(after.index)
                .bind(end.sequence)
                .bind(end.index),
        };
        query
            .fetch_all(connection)
            .await
            .map_err(EventError::Database)
    }
}

/// Whether a lapsed claim was found that must stay alone.
fn alone(search: &Search<'_>, found: &Found) -> bool {
    search.lapsed_alone && found.candidates.first().is_some_and(|first| first.lapsed)
}
