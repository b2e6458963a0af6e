//! Heads that may be claimed, the one that waited longest first.
//!
//! Invariant: a head is read whole before anything of it is changed, and one that cannot be read
//! stands in the way of no other.

use super::{Document, EventError, select_event};
use crate::encoding::{known, micros};
use crate::row::{self, CorruptColumn};
use application_core::event::StoredOutboxEvent;
use application_core::ports::{BudgetSpentReason, ClaimRequest, KnownRecord};
use domain_core::identity::{DeliveryGeneration, EventId};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

/// Heads that a count of unreadable ones looks at: those that Tx B would meet first.
const LOOKED_AT: i64 = 16;

/// A head that can be read, and what is to be done with it.
pub(super) struct Head {
    pub(super) event: StoredOutboxEvent,
    pub(super) generation: DeliveryGeneration,
    pub(super) row_version: i64,
    pub(super) lapsed: bool,
    pub(super) spent: Option<BudgetSpentReason>,
}

impl Head {
    pub(super) fn event_id(&self) -> &EventId {
        &self.event.identities.event_id
    }
}

/// What a search met.
pub(super) struct Found {
    /// The first head that can be read.
    pub(super) head: Option<Head>,
    /// The first that was passed over because it cannot: which row and rule.
    pub(super) corrupt: Option<String>,
}

/// Where a search goes on: after this place in the order of the claimable heads.
struct Place {
    claimable_at: i64,
    event_id: String,
}

impl Place {
    const START: Self = Self {
        claimable_at: i64::MIN,
        event_id: String::new(),
    };
}

/// What the search is for.
struct Wanted {
    known: String,
    attempt_budget: i64,
    maximum_attempts: i64,
}

/// Looks for the head to claim, by the rows and the clock that `connection` sees.
pub(super) async fn first_readable(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
    document: Document,
) -> Result<Found, EventError> {
    let wanted = Wanted {
        known: known(&request.known),
        attempt_budget: micros(request.attempt_budget),
        maximum_attempts: i64::from(request.maximum_attempts),
    };
    let mut place = Place::START;
    let mut corrupt = None;
    loop {
        let rows = select(connection, &wanted, &place, 1).await?;
        let Some(found) = rows.first() else {
            return Ok(Found {
                head: None,
                corrupt,
            });
        };
        match read(connection, found, document).await {
            Ok(head) => {
                return Ok(Found {
                    head: Some(head),
                    corrupt,
                });
            }
            Err(EventError::Corrupt(what)) => corrupt = corrupt.or(Some(what)),
            Err(error @ EventError::Database(_)) => return Err(error),
        }
        place = Place {
            claimable_at: row::value(found, "claimable_at")?,
            event_id: row::value(found, "event_id")?,
        };
    }
}

/// How many of the heads that a claim would meet first cannot be read.
pub(super) async fn count_unreadable(
    connection: &mut SqliteConnection,
    records: &[KnownRecord],
) -> Result<u64, EventError> {
    let wanted = Wanted {
        known: known(records),
        attempt_budget: 0,
        maximum_attempts: i64::MAX,
    };
    let mut unreadable = 0;
    for found in select(connection, &wanted, &Place::START, LOOKED_AT).await? {
        match read(connection, &found, Document::Left).await {
            Ok(_) => {}
            Err(EventError::Corrupt(_)) => unreadable += 1,
            Err(error @ EventError::Database(_)) => return Err(error),
        }
    }
    Ok(unreadable)
}

async fn select(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
    after: &Place,
    limit: i64,
) -> Result<Vec<SqliteRow>, EventError> {
    sqlx::query(include_str!("../sql/select_heads.sql"))
        .bind(&wanted.known)
        .bind(wanted.attempt_budget)
        .bind(wanted.maximum_attempts)
        .bind(after.claimable_at)
        .bind(&after.event_id)
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(EventError::Database)
}

async fn read(
    connection: &mut SqliteConnection,
    found: &SqliteRow,
    document: Document,
) -> Result<Head, EventError> {
    let event_id: EventId = row::parsed(found, "event_id")?;
    let of_event = |column: CorruptColumn| EventError::corrupt(&event_id, &column);
    let lapsed = row::value(found, "lapsed").map_err(of_event)?;
    let open: i64 = row::value(found, "open_attempts").map_err(of_event)?;
    if lapsed && open != 1 {
        return Err(EventError::Corrupt(format!(
            "event {event_id}: a lapsed claim has {open} open attempts instead of one"
        )));
    }
    let spent = row::optional_text(found, "spent", |name| {
        [BudgetSpentReason::Deadline, BudgetSpentReason::Attempts]
            .into_iter()
            .find(|reason| reason.as_str() == name)
            .ok_or("an unknown name")
    });
    Ok(Head {
        generation: row::number(found, "delivery_generation", DeliveryGeneration::new)
            .map_err(of_event)?,
        row_version: row::value(found, "row_version").map_err(of_event)?,
        lapsed,
        spent: spent.map_err(of_event)?,
        event: select_event(connection, &event_id, document).await?,
    })
}
