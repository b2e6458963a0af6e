//! A head that may be claimed, and how it is read.
//!
//! Invariant: heads are found without a lock. A value that breaks its rule makes its own head
//! unreadable and no other.

use super::PostgresDeliveries;
use super::judge::LockedHead;
use super::scan::{Place, Places, Search};
use crate::rows::{ReadError, StoredRow};
use crate::session::Access;
use application_core::event::StoredOutboxEvent;
use application_core::ports::{KnownRecord, PartitionShare};
use domain_core::delivery::{Claim, DeliveryState, DeliveryStateName};
use domain_core::identity::{ClaimToken, DeliveryGeneration, WorkerId};
use domain_core::instant::DatabaseInstant;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

/// Heads that a look at what cannot be read takes in.
const HEADS: usize = 16;

/// A row as it was found.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) event_id: String,
    pub(crate) generation: i64,
    pub(crate) row_version: i64,
    pub(super) place: Place,
}

impl Head {
    /// What is wrong with a claim that nobody can close.
    pub(super) fn without_attempt(&self) -> String {
        format!(
            "the claim on event {} has no attempt in the journal",
            self.event_id
        )
    }
}

/// Whether an event is read with its document, which may be large.
#[derive(Debug, Clone, Copy)]
pub(super) enum Document {
    Read,
    Left,
}

/// What this process can send, by column; each record is one place in all of them.
#[derive(Default)]
pub(super) struct Known<'r> {
    pub(super) contracts: Vec<&'r str>,
    pub(super) versions: Vec<i32>,
    pub(super) schemas: Vec<&'r [u8]>,
    pub(super) destinations: Vec<&'r str>,
    pub(super) bindings: Vec<&'r str>,
}

impl<'r> Known<'r> {
    pub(super) fn of(records: &'r [KnownRecord]) -> Self {
        let mut known = Self::default();
        for record in records {
            // A payload version fits a signed 32-bit column by its own rule; one that did not
            // would be a record that no row can have.
            let Ok(version) = i32::try_from(record.contract.payload_version.value()) else {
                continue;
            };
            known.contracts.push(record.contract.contract_id.as_str());
            known.versions.push(version);
            known.schemas.push(&record.payload_schema.as_bytes()[..]);
            known.destinations.push(record.destination.as_str());
            known.bindings.push(record.binding_revision.as_str());
        }
        known
    }
}

/// A head with its event.
pub(super) struct ReadHead {
    pub(super) locked: LockedHead,
    pub(super) generation: DeliveryGeneration,
    pub(super) event: StoredOutboxEvent,
}

/// Reads a head from a row of `lock_head.sql` or `look_at_head.sql`.
pub(super) async fn read(
    connection: &mut PgConnection,
    head: &Head,
    locked: &PgRow,
    document: Document,
) -> Result<ReadHead, ReadError> {
    let event = read_event(connection, &head.event_id, document).await?;
    let corrupt =
        |column: &str| ReadError::Corrupt(format!("column {column} of event {}", head.event_id));
    let generation =
        DeliveryGeneration::new(head.generation).map_err(|_| corrupt("delivery_generation"))?;
    let instant = |column: &str| -> Result<DatabaseInstant, ReadError> {
        Ok(DatabaseInstant::from_epoch_micros(locked.try_get(column)?))
    };
    let state = match DeliveryStateName::from_name(locked.try_get("state")?) {
        Some(DeliveryStateName::Ready) => DeliveryState::Ready,
        Some(DeliveryStateName::RetryWait) => DeliveryState::RetryWait {
            due: instant("next_attempt_at")?,
        },
        Some(DeliveryStateName::Claimed) => {
            let token: Vec<u8> = locked.try_get("claim_token")?;
            let owner: String = locked.try_get("claim_owner")?;
            DeliveryState::Claimed(Claim {
                token: ClaimToken::from_random(
                    token.try_into().map_err(|_| corrupt("claim_token"))?,
                ),
                owner: WorkerId::parse(owner).map_err(|_| corrupt("claim_owner"))?,
                until: instant("claim_until")?,
            })
        }
        _ => return Err(corrupt("state")),
    };
    let attempt_count: i32 = locked.try_get("publication_attempt_count")?;
    Ok(ReadHead {
        locked: LockedHead {
            state,
            attempt_count: u32::try_from(attempt_count)
                .map_err(|_| corrupt("publication_attempt_count"))?,
            deadline: instant("automatic_attempt_deadline")?,
            now: instant("now")?,
        },
        generation,
        event,
    })
}

/// The event of a delivery; the foreign key says that it is there.
pub(super) async fn read_event(
    connection: &mut PgConnection,
    event_id: &str,
    document: Document,
) -> Result<StoredOutboxEvent, ReadError> {
    let row = sqlx::query(include_str!("../sql/read_event.sql"))
        .bind(event_id)
        .bind(matches!(document, Document::Read))
        .fetch_one(connection)
        .await?;
    StoredRow::new(&row)?.event()
}

impl PostgresDeliveries {
    /// How many of the heads that a claim would meet first cannot be read.
    pub(super) async fn count_unreadable(&self, known: &[KnownRecord]) -> Result<u64, ReadError> {
        let session = self.sessions.begin(Access::Read).await;
        let mut tx = session.map_err(ReadError::Database)?;
        let mut unreadable = 0;
        let search = Search {
            share: PartitionShare::WHOLE,
            known,
            limit: HEADS,
            documents: false,
        };
        for found in Places::default().look(&mut tx, &search).await?.heads {
            let looked = match found.event {
                Ok(_) => look_at(&mut tx, &found.head).await,
                Err(what) => Err(ReadError::Corrupt(what)),
            };
            match looked {
                Ok(()) => {}
                Err(ReadError::Corrupt(_)) => unreadable += 1,
                Err(error @ ReadError::Database(_)) => return Err(error),
            }
        }
        Ok(unreadable)
    }
}

/// Whether a claim could read the head and close what it left open.
async fn look_at(connection: &mut PgConnection, head: &Head) -> Result<(), ReadError> {
    let row = sqlx::query(include_str!("../sql/look_at_head.sql"))
        .bind(&head.event_id)
        .bind(head.generation)
        .fetch_one(&mut *connection)
        .await?;
    let read = match read(connection, head, &row, Document::Left).await {
        // It was recorded since it was found.
        Err(ReadError::Corrupt(_)) if !claimable(&row)? => return Ok(()),
        read => read?,
    };
    let attempts: i64 = row.try_get("attempts")?;
    if matches!(read.locked.state, DeliveryState::Claimed(_)) && attempts != 1 {
        return Err(ReadError::Corrupt(head.without_attempt()));
    }
    Ok(())
}

/// Whether the row is still in a state that a claim may meet, or in none that exists.
fn claimable(row: &PgRow) -> Result<bool, ReadError> {
    Ok(!matches!(
        DeliveryStateName::from_name(row.try_get("state")?),
        Some(state) if !matches!(
            state,
            DeliveryStateName::Ready | DeliveryStateName::RetryWait | DeliveryStateName::Claimed
        )
    ))
}
