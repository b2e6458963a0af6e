//! One lane of the scan: its query, and the rows that come back.
//!
//! Invariant: a row is eligible when its event came back with it; the bound of a look ends a way at a
//! row that is given back as well, so the next query goes on from it.

use super::heads::{Head, Known};
use super::scan::{FoundHead, Place, Search, Track, Way, take_turns};
use crate::rows::{ReadError, StoredRow};
use domain_core::hashing::Sha256Digest;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

/// Rows that one look takes in on each way through a lane, eligible or not.
const LOOKED_AT: i64 = 4_096;

/// Young rows that a glance looks at, eligible or not.
const GLANCED_AT: i64 = 256;

/// The eligible ones of a share among the youngest rows of all.
pub(super) async fn glance(
    connection: &mut PgConnection,
    search: &Search<'_>,
) -> Result<Vec<FoundHead>, ReadError> {
    let known = Known::of(search.known);
    let rows = sqlx::query(include_str!("../sql/glance.sql"))
        .bind(i16::from(search.share.first()))
        .bind(i16::from(search.share.last()))
        .bind(GLANCED_AT)
        .bind(i64::try_from(search.limit).unwrap_or(i64::MAX))
        .bind(&known.contracts)
        .bind(&known.versions)
        .bind(&known.schemas)
        .bind(&known.destinations)
        .bind(&known.bindings)
        .bind(search.documents)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let scanned = ScannedRow(row);
            let track = Track {
                share: search.share,
                lane: row.try_get("found_lane")?,
                way: scanned.way()?,
            };
            scanned.found(track)
        })
        .collect()
}

/// The lane of a destination, as the database computes it.
pub(super) fn number(destination: &str) -> i16 {
    i16::from(Sha256Digest::of(destination.as_bytes()).as_bytes()[0])
}

/// What the looks at one lane found.
#[derive(Default)]
pub(super) struct LaneFound {
    heads: Vec<FoundHead>,
    tolerant: Vec<FoundHead>,
    /// Whether the last query ended before the end of the share.
    pub(super) more: bool,
    /// Whether it ended because it had found as many as it was asked for.
    pub(super) full: bool,
}

impl LaneFound {
    pub(super) fn count(&self) -> usize {
        self.heads.len() + self.tolerant.len()
    }

    /// Takes in what one query found on one way.
    pub(super) fn take_in(
        &mut self,
        rows: &[PgRow],
        track: Track,
        limit: usize,
    ) -> Result<Seen, ReadError> {
        let heads = match track.way {
            Way::Heads => &mut self.heads,
            Way::Tolerant => &mut self.tolerant,
        };
        let mut seen = Seen::default();
        let mut bounded = false;
        for row in rows {
            let row = ScannedRow(row);
            if row.way()? != track.way {
                continue;
            }
            bounded |= row.0.try_get::<bool, _>("bounded")?;
            seen.last = Some(row.place()?);
            if row.is_eligible()? {
                seen.eligible += 1;
                heads.push(row.found(track)?);
            }
        }
        let full = seen.eligible >= limit;
        seen.stopped = bounded || full;
        self.full |= full;
        self.more |= seen.stopped;
        Ok(seen)
    }

    pub(super) fn into_turns(self, tolerant_first: bool) -> Vec<FoundHead> {
        let mut ways = vec![self.heads, self.tolerant];
        if tolerant_first {
            ways.reverse();
        }
        take_turns(ways)
    }
}

/// What one query found on one way.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) eligible: usize,
    /// The last row that came back.
    pub(super) last: Option<Place>,
    /// Whether the query ended before its end was reached.
    pub(super) stopped: bool,
}

/// One query of one lane.
#[derive(Clone, Copy)]
pub(super) struct LaneQuery<'r> {
    pub(super) search: &'r Search<'r>,
    pub(super) known: &'r Known<'r>,
    pub(super) lane: i16,
    pub(super) limit: usize,
}

impl LaneQuery<'_> {
    /// The two ways through the lane.
    pub(super) fn ways(&self) -> [Track; 2] {
        [Way::Heads, Way::Tolerant].map(|way| Track {
            share: self.search.share,
            lane: self.lane,
            way,
        })
    }

    /// Eligible rows after a place and before a key, for each way.
    pub(super) async fn select(
        &self,
        connection: &mut PgConnection,
        [heads, tolerant]: [&Place; 2],
        [heads_end, tolerant_end]: [&str; 2],
    ) -> Result<Vec<PgRow>, ReadError> {
        let Self { search, known, .. } = self;
        Ok(sqlx::query(include_str!("../sql/scan.sql"))
            .bind(self.lane)
            .bind(&heads.key)
            .bind(&tolerant.key)
            .bind(tolerant.sequence)
            .bind(tolerant.index)
            .bind(heads_end)
            .bind(i64::try_from(self.limit).unwrap_or(i64::MAX))
            .bind(LOOKED_AT)
            .bind(&known.contracts)
            .bind(&known.versions)
            .bind(&known.schemas)
            .bind(&known.destinations)
            .bind(&known.bindings)
            .bind(search.documents)
            .bind(tolerant_end)
            .fetch_all(connection)
            .await?)
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
