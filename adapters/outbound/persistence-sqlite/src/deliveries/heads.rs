//! Heads that may be claimed: what a look finds, and what the write lock says of it.
//!
//! Invariant: a head is read whole before anything of it is changed, and one that cannot be read
//! stands in the way of no other.

use super::place::Place;
use super::scan::{Places, Search};
use super::{Document, EventError, select_event};
use crate::encoding::micros;
use crate::row::{self, CorruptColumn};
use application_core::event::StoredOutboxEvent;
use application_core::ports::{BudgetSpentReason, ClaimRequest, KnownRecord, PartitionShare};
use domain_core::identity::{DeliveryGeneration, EventId};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;

/// Readable heads after which a count of unreadable ones ends.
const COUNTED_AMONG: usize = 16;

/// A row of a scan.
pub(super) struct LookedAt {
    event_id: String,
    generation: i64,
    row_version: i64,
    /// Its place in the track.
    pub(super) place: Place,
    /// How many rows its statement had looked at with it.
    pub(super) looked: i64,
    pub(super) eligible: bool,
    pub(super) lapsed: bool,
}

/// An eligible row that can be read. Events are immutable, so one that was read without the lock
/// is the one that is claimed.
pub(super) struct Candidate {
    pub(super) event: Arc<StoredOutboxEvent>,
    pub(super) generation: DeliveryGeneration,
    pub(super) row_version: i64,
    pub(super) lapsed: bool,
}

impl Candidate {
    pub(super) fn event_id(&self) -> &EventId {
        &self.event.identities.event_id
    }
}

/// What is to be done with a head.
pub(super) struct Judgement {
    pub(super) lapsed: bool,
    pub(super) spent: Option<BudgetSpentReason>,
}

impl LookedAt {
    /// Reads a row of `scan_heads.sql` or `scan_tolerant.sql`.
    pub(super) fn of(found: &SqliteRow) -> Result<Self, CorruptColumn> {
        let state: &str = row::value(found, "state")?;
        Ok(Self {
            event_id: row::value(found, "event_id")?,
            generation: row::value(found, "delivery_generation")?,
            row_version: row::value(found, "row_version")?,
            place: Place {
                key: row::value(found, "partition_key_text")?,
                sequence: row::value(found, "aggregate_sequence")?,
                index: row::value(found, "aggregate_event_index")?,
            },
            looked: row::value(found, "looked")?,
            eligible: row::value(found, "eligible")?,
            lapsed: state == "CLAIMED",
        })
    }
}

/// Reads the event of an eligible row.
pub(super) async fn read(
    connection: &mut SqliteConnection,
    found: &LookedAt,
    document: Document,
) -> Result<Candidate, EventError> {
    let event_id: EventId = found
        .event_id
        .parse()
        .map_err(|rule| CorruptColumn::new("event_id", rule))?;
    let generation = DeliveryGeneration::new(found.generation)
        .map_err(|rule| CorruptColumn::new("delivery_generation", rule))
        .map_err(|column| EventError::corrupt(&event_id, &column))?;
    if found.lapsed {
        let open: i64 = sqlx::query_scalar(include_str!("../sql/select_open_attempts.sql"))
            .bind(event_id.as_str())
            .bind(generation.value())
            .fetch_one(&mut *connection)
            .await
            .map_err(EventError::Database)?;
        if open != 1 {
            return Err(EventError::Corrupt(format!(
                "event {event_id}: a lapsed claim has {open} open attempts instead of one"
            )));
        }
    }
    Ok(Candidate {
        generation,
        row_version: found.row_version,
        lapsed: found.lapsed,
        event: Arc::new(select_event(connection, &event_id, document).await?),
    })
}

/// Judges a head under the write lock; `None` when it may not be taken, or not any more.
pub(super) async fn judge(
    connection: &mut SqliteConnection,
    head: &Candidate,
    request: &ClaimRequest,
) -> Result<Option<Judgement>, EventError> {
    let judged = sqlx::query(include_str!("../sql/judge_head.sql"))
        .bind(head.event_id().as_str())
        .bind(head.generation.value())
        .bind(head.row_version)
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .fetch_optional(connection)
        .await
        .map_err(EventError::Database)?;
    let Some(judged) = judged else {
        return Ok(None);
    };
    let lapsed: bool = row::value(&judged, "lapsed")?;
    let open: i64 = row::value(&judged, "open_attempts")?;
    if lapsed && open != 1 {
        return Ok(None);
    }
    let spent = row::optional_text(&judged, "spent", |name| {
        [BudgetSpentReason::Deadline, BudgetSpentReason::Attempts]
            .into_iter()
            .find(|reason| reason.as_str() == name)
            .ok_or("an unknown name")
    })?;
    Ok(Some(Judgement { lapsed, spent }))
}

/// How many of the heads that a scan from the start meets first cannot be read.
pub(super) async fn count_unreadable(
    connection: &mut SqliteConnection,
    known: &[KnownRecord],
) -> Result<u64, EventError> {
    let search = Search {
        share: PartitionShare::WHOLE,
        known,
        limit: COUNTED_AMONG,
        lapsed_alone: false,
        document: Document::Left,
    };
    let found = Places::default().look(connection, &search).await?;
    Ok(found.unreadable)
}
