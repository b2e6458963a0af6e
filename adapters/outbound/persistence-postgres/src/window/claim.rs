//! Tx B of a window.
//!
//! Invariant: rows are found without a lock, then locked by key in key order in one statement that
//! judges and journals them. A lapsed claim, whose attempt has no outcome, is reclaimed alone, so
//! that a record that ends its process spends nobody else's attempts.

use super::PostgresWindows;
use crate::delivery::{
    ClaimAbort, Found, FoundHead, Search, claim_unknown as unknown, unclaimed as unavailable,
};
use crate::errors::{Abort, DatabaseFault, FaultKind};
use crate::rows::ReadError;
use crate::session::{self, Access};
use crate::settings::micros;
use application_core::event::StoredOutboxEvent;
use application_core::ports::{
    AttemptIdentity, BudgetSpentReason, ClaimError, ClaimOutcome, ClaimRequest, ClaimedDelivery,
    FreshAttempt, SpentDelivery, WindowClaim, WindowRequest,
};
use domain_core::identity::DeliveryGeneration;
use domain_core::instant::DatabaseInstant;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row as _, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Looks that one window takes while what it finds is taken by others or cannot be read.
const LOOKS: usize = 4;

/// A found row that can be read.
struct Asked {
    found: FoundHead,
    event: StoredOutboxEvent,
}

impl PostgresWindows {
    /// One turn of a window's Tx B.
    pub(super) async fn claim_once(
        &self,
        request: &WindowRequest,
    ) -> Result<WindowClaim, ClaimAbort> {
        let mut corrupt = None;
        for _ in 0..LOOKS {
            let mut tx = self
                .sessions
                .begin(Access::Batch)
                .await
                .map_err(|fault| Abort::of(fault, unavailable))?;
            let mut found = self.find(&mut tx, request).await?;
            if found.heads.is_empty() && !found.finished {
                session::roll_back(tx).await;
                break;
            }
            let fresh = found.heads.iter().any(|found| !found.lapsed);
            let lapsed = found.heads.iter().find(|found| found.lapsed);
            if let Some(lapsed) = lapsed
                && (!fresh || self.lapsed_first.load(Ordering::Relaxed))
            {
                session::roll_back(tx).await;
                self.lapsed_first.store(false, Ordering::Relaxed);
                let reclaimed = self
                    .reclaim(request, lapsed)
                    .await
                    .inspect_err(|_| self.places.untried(&found))?;
                if let Some(claim) = reclaimed {
                    self.places.untried(&found);
                    self.places.taken(request.share);
                    return Ok(claim);
                }
                tx = self
                    .sessions
                    .begin(Access::Batch)
                    .await
                    .map_err(|fault| Abort::of(fault, unavailable))?;
            }
            self.lapsed_first.store(true, Ordering::Relaxed);
            let mut asked = Vec::new();
            for mut found in found.heads.drain(..).filter(|found| !found.lapsed) {
                match std::mem::replace(&mut found.event, Err(String::new())) {
                    Ok(event) => asked.push(Asked { found, event }),
                    Err(what) => corrupt = corrupt.or(Some(what)),
                }
            }
            // Rows are locked in the order of their keys, whoever locks them.
            asked.sort_by(|a, b| a.found.head.event_id.cmp(&b.found.head.event_id));
            let mut claim = WindowClaim {
                unfinished: !found.finished,
                ..WindowClaim::default()
            };
            if asked.is_empty() {
                session::roll_back(tx).await;
            } else {
                self.claim_split(tx, request, asked, &mut claim, &mut corrupt)
                    .await
                    .inspect_err(|_| self.places.untried(&found))?;
            }
            if !claim.claimed.is_empty() || !claim.spent.is_empty() {
                self.places.taken(request.share);
                return Ok(claim);
            }
            if found.finished {
                return match corrupt {
                    Some(what) => Err(Abort::Failed(ClaimError::Corrupt { what })),
                    None => Ok(claim),
                };
            }
        }
        Ok(WindowClaim {
            unfinished: true,
            ..WindowClaim::default()
        })
    }

    async fn find(
        &self,
        tx: &mut PgConnection,
        request: &WindowRequest,
    ) -> Result<Found, ClaimAbort> {
        let search = Search {
            share: request.share,
            known: &request.known,
            limit: request.attempts.len(),
            documents: true,
        };
        let found = self.places.look(tx, &search).await;
        found.map_err(|error| match error {
            ReadError::Database(fault) => Abort::of(fault, unavailable),
            ReadError::Corrupt(what) => Abort::Failed(ClaimError::Corrupt { what }),
        })
    }

    /// Reclaims one lapsed claim in a window of its own, by the per-record statements.
    async fn reclaim(
        &self,
        request: &WindowRequest,
        lapsed: &FoundHead,
    ) -> Result<Option<WindowClaim>, ClaimAbort> {
        let Some(attempt) = request.attempts.first() else {
            return Ok(None);
        };
        let alone = ClaimRequest {
            owner: request.owner.clone(),
            token: attempt.token,
            attempt_id: attempt.attempt_id.clone(),
            producer_generation: request.producer_generation.clone(),
            lease: request.lease,
            attempt_budget: request.attempt_budget,
            maximum_attempts: request.maximum_attempts,
            known: Arc::clone(&request.known),
        };
        let mut claim = WindowClaim {
            unfinished: true,
            ..WindowClaim::default()
        };
        match self.alone.claim_found(lapsed, &alone).await? {
            Some(ClaimOutcome::Claimed(claimed)) => claim.claimed.push(*claimed),
            Some(ClaimOutcome::BudgetSpent {
                event_id,
                generation,
                reason,
            }) => claim.spent.push(SpentDelivery {
                event_id,
                generation,
                reason,
            }),
            Some(ClaimOutcome::Nothing | ClaimOutcome::Unfinished) | None => return Ok(None),
        }
        Ok(Some(claim))
    }

    /// Claims a batch, first in the transaction that found it. When the database refuses a value,
    /// the batch is halved until the row it belongs to stands alone, which is then passed over as
    /// one that cannot be read.
    async fn claim_split(
        &self,
        tx: Transaction<'static, Postgres>,
        request: &WindowRequest,
        asked: Vec<Asked>,
        claim: &mut WindowClaim,
        corrupt: &mut Option<String>,
    ) -> Result<(), ClaimAbort> {
        let mut open = Some(tx);
        let mut batches = vec![(asked, request.attempts.clone())];
        let mut again = true;
        while let Some((mut asked, mut attempts)) = batches.pop() {
            match self
                .claim_batch(open.take(), request, &asked, &attempts)
                .await
            {
                Ok(done) => collect(claim, asked, &attempts, request, &done)?,
                // A late observation may just have taken the number of this admission.
                Err(BatchFailure::Refused(_)) if asked.len() == 1 && again => {
                    again = false;
                    batches.push((asked, attempts));
                }
                Err(BatchFailure::Refused(fault)) if asked.len() == 1 => {
                    again = true;
                    let what = format!("event {}: {fault}", asked[0].found.head.event_id);
                    *corrupt = corrupt.take().or(Some(what));
                }
                Err(BatchFailure::Refused(_)) => {
                    let half = asked.len() / 2;
                    let rest = (asked.split_off(half), attempts.split_off(half));
                    batches.push(rest);
                    batches.push((asked, attempts));
                }
                // What an earlier part claimed must not be lost with this one; what this one may
                // have claimed must be looked up, and the earlier part with it.
                Err(BatchFailure::Abort(abort)) => {
                    let unanswered = matches!(abort, Abort::Failed(ClaimError::OutcomeUnknown(_)));
                    return if claim.claimed.is_empty() && claim.spent.is_empty() || unanswered {
                        Err(abort)
                    } else {
                        claim.unfinished = true;
                        Ok(())
                    };
                }
            }
        }
        Ok(())
    }

    async fn claim_batch(
        &self,
        open: Option<Transaction<'static, Postgres>>,
        request: &WindowRequest,
        asked: &[Asked],
        attempts: &[FreshAttempt],
    ) -> Result<Vec<Changed>, BatchFailure> {
        let mut tx = match open {
            Some(tx) => tx,
            None => self
                .sessions
                .begin(Access::Batch)
                .await
                .map_err(|fault| BatchFailure::Abort(Abort::of(fault, unavailable)))?,
        };
        let changed = match claim_statement(&mut tx, request, asked, attempts).await {
            Ok(changed) => changed,
            Err(fault) => {
                session::roll_back(tx).await;
                return Err(BatchFailure::of(fault));
            }
        };
        if changed.is_empty() {
            session::roll_back(tx).await;
        } else {
            session::commit(tx).await.map_err(|fault| {
                BatchFailure::Abort(Abort::of_commit(fault, unavailable, unknown))
            })?;
        }
        Ok(changed)
    }
}

/// Why a batch did not go through.
enum BatchFailure {
    /// The database refused a value: class 22 or 23.
    Refused(DatabaseFault),
    Abort(ClaimAbort),
}

impl BatchFailure {
    fn of(fault: DatabaseFault) -> Self {
        match fault.kind() {
            FaultKind::Refused => Self::Refused(fault),
            _ => Self::Abort(Abort::of(fault, unavailable)),
        }
    }
}

/// A row that the statement changed.
struct Changed {
    place: usize,
    claim: Option<Counted>,
}

struct Counted {
    until: DatabaseInstant,
    claims: u32,
    attempts: u32,
}

async fn claim_statement(
    connection: &mut PgConnection,
    request: &WindowRequest,
    asked: &[Asked],
    attempts: &[FreshAttempt],
) -> Result<Vec<Changed>, DatabaseFault> {
    let pairs = || asked.iter().zip(attempts);
    let heads = || asked.iter().map(|one| &one.found.head);
    let events: Vec<&str> = heads().map(|head| head.event_id.as_str()).collect();
    let generations: Vec<i64> = heads().map(|head| head.generation).collect();
    let versions: Vec<i64> = heads().map(|head| head.row_version).collect();
    let tokens: Vec<&[u8]> = pairs()
        .map(|(_, fresh)| &fresh.token.as_bytes()[..])
        .collect();
    let digests: Vec<Vec<u8>> = pairs()
        .map(|(_, fresh)| fresh.token.digest().as_bytes().to_vec())
        .collect();
    let attempt_ids: Vec<&str> = pairs()
        .map(|(_, fresh)| fresh.attempt_id.as_str())
        .collect();
    let (class, stage) = BudgetSpentReason::Deadline.failure();
    let rows = sqlx::query(include_str!("../sql/claim_window.sql"))
        .bind(events)
        .bind(generations)
        .bind(versions)
        .bind(tokens)
        .bind(digests)
        .bind(attempt_ids)
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .bind(request.producer_generation.as_str())
        .bind(class.as_str())
        .bind(stage.as_str())
        .bind(asked.len() == 1)
        .fetch_all(connection)
        .await?;
    let changed: Vec<Changed> = rows.iter().map(changed).collect::<Result<_, _>>()?;
    // What must be inserted is counted.
    let claimed = changed.iter().filter(|row| row.claim.is_some()).count();
    if let Some(row) = rows.first() {
        let admitted: i64 = row.try_get("admitted")?;
        if usize::try_from(admitted) != Ok(claimed) {
            return Err(DatabaseFault::RowCount);
        }
    }
    Ok(changed)
}

fn changed(row: &PgRow) -> Result<Changed, DatabaseFault> {
    let place: i64 = row.try_get("place")?;
    let count = |column: &str| -> Result<u32, DatabaseFault> {
        let number: i32 = row.try_get(column)?;
        u32::try_from(number).map_err(|_| DatabaseFault::Column(column.to_owned()))
    };
    let spent: bool = row.try_get("spent")?;
    Ok(Changed {
        place: usize::try_from(place)
            .ok()
            .and_then(|place| place.checked_sub(1))
            .ok_or(DatabaseFault::RowCount)?,
        claim: if spent {
            None
        } else {
            Some(Counted {
                until: DatabaseInstant::from_epoch_micros(row.try_get("claim_until")?),
                claims: count("claim_count")?,
                attempts: count("publication_attempt_count")?,
            })
        },
    })
}

/// Adds what a batch changed to the window.
fn collect(
    claim: &mut WindowClaim,
    asked: Vec<Asked>,
    attempts: &[FreshAttempt],
    request: &WindowRequest,
    changed: &[Changed],
) -> Result<(), ClaimAbort> {
    let impossible = || Abort::Failed(unavailable(DatabaseFault::RowCount));
    let mut asked: Vec<Option<Asked>> = asked.into_iter().map(Some).collect();
    for row in changed {
        let one = asked
            .get_mut(row.place)
            .and_then(Option::take)
            .ok_or_else(impossible)?;
        let fresh = attempts.get(row.place).ok_or_else(impossible)?;
        let generation =
            DeliveryGeneration::new(one.found.head.generation).map_err(|_| impossible())?;
        let event_id = one.event.identities.event_id.clone();
        match &row.claim {
            None => claim.spent.push(SpentDelivery {
                event_id,
                generation,
                reason: BudgetSpentReason::Deadline,
            }),
            Some(counted) => claim.claimed.push(ClaimedDelivery {
                attempt: AttemptIdentity {
                    event_id,
                    generation,
                    attempt_id: fresh.attempt_id.clone(),
                    claim_token: fresh.token,
                },
                owner: request.owner.clone(),
                event: Arc::new(one.event),
                claim_until: counted.until,
                claim_count: counted.claims,
                attempt_count: counted.attempts,
            }),
        }
    }
    Ok(())
}
