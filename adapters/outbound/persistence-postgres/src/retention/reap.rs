//! One batch.
//!
//! Invariant: nothing is waited for but rows that this batch holds already; the conditions are
//! judged by a statement that begins after the last lock, so neither a requeue, nor a late
//! acknowledgement, nor a legal hold can slip between the judgement and the removal.

use super::{PostgresRetention, RetentionAbort, failed, unavailable, unknown};
use crate::errors::{Abort, DatabaseFault};
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::ports::{ReapReport, ReapRequest};
use sqlx::{PgConnection, Row as _};
use std::collections::{BTreeMap, BTreeSet};

/// Events that one statement looks at.
const WINDOW: i64 = 512;
/// Windows that one batch looks at.
const WINDOWS: usize = 16;
/// Events that one batch removes at most, whatever is asked.
const MOST: usize = 4096;

/// Events that looked removable, without a lock.
#[derive(Default)]
struct Due {
    events: Vec<String>,
    /// Where the next batch goes on; none at the end of the key.
    place: Option<String>,
}

impl PostgresRetention {
    /// One turn.
    pub(super) async fn reap_once(
        &self,
        request: &ReapRequest,
    ) -> Result<ReapReport, RetentionAbort> {
        if request.limit == 0 {
            return Ok(ReapReport {
                removed: 0,
                finished: true,
            });
        }
        let mut tx = self
            .sessions
            .begin(Access::Batch)
            .await
            .map_err(|fault| Abort::of(fault, unavailable))?;
        let due = look(&mut tx, request, self.place()).await?;
        let removed = if due.events.is_empty() {
            session::roll_back(tx).await;
            0
        } else {
            let chosen = choose(&mut tx, request, &due.events)
                .await
                .map_err(failed)?;
            remove(&mut tx, &chosen).await?;
            session::commit(tx)
                .await
                .map_err(|fault| Abort::of_commit(fault, unavailable, unknown))?;
            chosen.len()
        };
        let finished = due.place.is_none();
        self.go_on_after(due.place);
        Ok(ReapReport {
            removed: u64::try_from(removed).unwrap_or(u64::MAX),
            finished,
        })
    }
}

/// Goes through the events in key order from a place.
async fn look(
    tx: &mut PgConnection,
    request: &ReapRequest,
    place: Option<String>,
) -> Result<Due, RetentionAbort> {
    let limit = usize::try_from(request.limit).unwrap_or(MOST).min(MOST);
    let mut due = Due {
        events: Vec::new(),
        place,
    };
    for _ in 0..WINDOWS {
        let row = sqlx::query(include_str!("../sql/due_window.sql"))
            .bind(&due.place)
            .bind(WINDOW)
            .bind(micros(request.audit_retention))
            .bind(micros(request.replay_horizon))
            .fetch_one(&mut *tx)
            .await
            .map_err(failed)?;
        let looked_at: i64 = row.try_get("looked_at").map_err(failed)?;
        let mut found: Vec<String> = row.try_get("due").map_err(failed)?;
        let left = limit - due.events.len();
        if found.len() > left {
            // The batch is full within the window, and the next one begins there.
            found.truncate(left);
            if let Some(last) = found.last() {
                due.place = Some(last.clone());
            }
            due.events.append(&mut found);
            return Ok(due);
        }
        due.events.append(&mut found);
        due.place = if looked_at < WINDOW {
            None
        } else {
            row.try_get("last_event_id").map_err(failed)?
        };
        if due.place.is_none() {
            break;
        }
    }
    Ok(due)
}

/// Locks, and then judges.
async fn choose(
    tx: &mut PgConnection,
    request: &ReapRequest,
    due: &[String],
) -> Result<Vec<String>, sqlx::Error> {
    let generations: Vec<String> = sqlx::query_scalar(include_str!("../sql/lock_generations.sql"))
        .bind(due)
        .fetch_all(&mut *tx)
        .await?;
    let events: Vec<String> = sqlx::query_scalar(include_str!("../sql/lock_events.sql"))
        .bind(due)
        .fetch_all(&mut *tx)
        .await?;
    let events: BTreeSet<String> = events.into_iter().collect();
    let mut locked: BTreeMap<String, i64> = BTreeMap::new();
    for event in generations {
        if events.contains(&event) {
            *locked.entry(event).or_default() += 1;
        }
    }
    let (events, counts): (Vec<String>, Vec<i64>) = locked.into_iter().unzip();
    sqlx::query_scalar(include_str!("../sql/choose_removable.sql"))
        .bind(events)
        .bind(counts)
        .bind(micros(request.audit_retention))
        .bind(micros(request.replay_horizon))
        .fetch_all(tx)
        .await
}

/// Children first; nothing cascades.
async fn remove(tx: &mut PgConnection, chosen: &[String]) -> Result<(), RetentionAbort> {
    if chosen.is_empty() {
        return Ok(());
    }
    sqlx::query(include_str!("../sql/allow_reaping.sql"))
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    let mut removed = 0;
    for statement in [
        include_str!("../sql/remove_observations.sql"),
        include_str!("../sql/remove_dispositions.sql"),
        include_str!("../sql/remove_deliveries.sql"),
        include_str!("../sql/remove_events.sql"),
    ] {
        removed = sqlx::query(statement)
            .bind(chosen)
            .execute(&mut *tx)
            .await
            .map_err(failed)?
            .rows_affected();
    }
    // The last statement removed the events themselves.
    if usize::try_from(removed) == Ok(chosen.len()) {
        Ok(())
    } else {
        Err(Abort::Failed(unavailable(DatabaseFault::RowCount)))
    }
}
