//! The shipped statements by hand, in a transaction of the test's own, with their texts given.
//!
//! Invariant: arguments are bound as the adapter binds them, so a text is all that differs.

use application_core::ports::{ClaimRequest, OutcomeRecord};
use domain_core::hashing::Sha256Digest;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};
use std::time::Duration;

pub(super) const CLAIM: &str = include_str!("../../../src/sql/claim.sql");
pub(super) const CLAIM_WINDOW: &str = include_str!("../../../src/sql/claim_window.sql");
pub(super) const LOCK_HEAD: &str = include_str!("../../../src/sql/lock_head.sql");
pub(super) const RECORD_OUTCOME: &str = include_str!("../../../src/sql/record_outcome.sql");
pub(super) const RECORD_WINDOW: &str = include_str!("../../../src/sql/record_window.sql");
pub(super) const SCAN: &str = include_str!("../../../src/sql/scan.sql");

/// A row of the first generation, as it was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'e> {
    pub(super) event: &'e str,
    pub(super) row_version: i64,
    /// A claim that lapsed.
    pub(super) lapsed: bool,
}

impl<'e> Found<'e> {
    /// As it was appended.
    pub(super) fn fresh(event: &'e str) -> Self {
        Self {
            event,
            row_version: 1,
            lapsed: false,
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("a short time")
}

/// `lock_head.sql`; the clock after the lock, or `None` when the row was not locked.
pub(super) async fn lock_head(tx: &mut PgConnection, text: &str, found: Found<'_>) -> Option<i64> {
    sqlx::query(AssertSqlSafe(text.to_owned()))
        .bind(found.event)
        .bind(1_i64)
        .bind(found.row_version)
        .fetch_optional(tx)
        .await
        .expect("lock_head.sql")
        .map(|row| row.get("now"))
}

/// `claim.sql`; until when the row is claimed, if it is.
pub(super) async fn claim(
    tx: &mut PgConnection,
    text: &str,
    found: Found<'_>,
    request: &ClaimRequest,
) -> Option<i64> {
    sqlx::query(AssertSqlSafe(text.to_owned()))
        .bind(found.event)
        .bind(1_i64)
        .bind(found.row_version)
        .bind(&request.token.as_bytes()[..])
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .bind(i64::from(request.maximum_attempts))
        .bind(request.attempt_id.as_str())
        .bind(request.producer_generation.as_str())
        .bind(&request.token.digest().as_bytes()[..])
        .bind(found.lapsed)
        .bind("DEADLINE")
        .fetch_optional(tx)
        .await
        .expect("claim.sql")
        .map(|row| row.get("claim_until"))
}

/// What `claim_window.sql` did with its one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    Left,
    Claimed,
    Spent,
}

/// `claim_window.sql` for one row.
pub(super) async fn claim_window(
    tx: &mut PgConnection,
    text: &str,
    found: Found<'_>,
    request: &ClaimRequest,
) -> Window {
    let row = sqlx::query(AssertSqlSafe(text.to_owned()))
        .bind(vec![found.event])
        .bind(vec![1_i64])
        .bind(vec![found.row_version])
        .bind(vec![&request.token.as_bytes()[..]])
        .bind(vec![request.token.digest().as_bytes().to_vec()])
        .bind(vec![request.attempt_id.as_str()])
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .bind(micros(request.attempt_budget))
        .bind(request.producer_generation.as_str())
        .bind("BUDGET_EXHAUSTED")
        .bind("DEADLINE")
        .bind(true)
        .fetch_optional(tx)
        .await
        .expect("claim_window.sql");
    match row.map(|row| row.get("spent")) {
        None => Window::Left,
        Some(false) => Window::Claimed,
        Some(true) => Window::Spent,
    }
}

/// `record_outcome.sql` for an acknowledgement; how many rows it moved.
pub(super) async fn record(tx: &mut PgConnection, text: &str, record: &OutcomeRecord) -> i64 {
    let attempt = &record.attempt;
    let receipt = record.outcome.receipt().expect("an acknowledgement");
    sqlx::query_scalar(AssertSqlSafe(text.to_owned()))
        .bind(attempt.event_id.as_str())
        .bind(attempt.generation.value())
        .bind(&attempt.claim_token.as_bytes()[..])
        .bind(record.owner.as_str())
        .bind(record.decision.state().as_str())
        .bind(0_i64)
        .bind(record.outcome.certainty().as_str())
        .bind(record.outcome.disposition().as_str())
        .bind(None::<&str>)
        .bind(None::<&str>)
        .bind(record.producer_generation.as_str())
        .bind(receipt.record_reference.as_str())
        .bind(receipt.acknowledged_at.epoch_micros())
        .bind(attempt.attempt_id.as_str())
        .bind(&attempt.claim_token.digest().as_bytes()[..])
        .bind(record.binding_revision.as_str())
        .fetch_one(tx)
        .await
        .expect("record_outcome.sql")
}

/// `record_window.sql` for one acknowledgement; how many rows it moved.
pub(super) async fn record_window(
    tx: &mut PgConnection,
    text: &str,
    record: &OutcomeRecord,
) -> i64 {
    let attempt = &record.attempt;
    let receipt = record.outcome.receipt().expect("an acknowledgement");
    let row = sqlx::query(AssertSqlSafe(text.to_owned()))
        .bind(vec![attempt.event_id.as_str()])
        .bind(vec![attempt.generation.value()])
        .bind(vec![&attempt.claim_token.as_bytes()[..]])
        .bind(vec![record.owner.as_str()])
        .bind(vec![record.decision.state().as_str()])
        .bind(vec![0_i64])
        .bind(vec![record.outcome.certainty().as_str()])
        .bind(vec![record.outcome.disposition().as_str()])
        .bind(vec![None::<&str>])
        .bind(vec![None::<&str>])
        .bind(vec![record.producer_generation.as_str()])
        .bind(vec![receipt.record_reference.as_str()])
        .bind(vec![receipt.acknowledged_at.epoch_micros()])
        .bind(vec![attempt.attempt_id.as_str()])
        .bind(vec![attempt.claim_token.digest().as_bytes().to_vec()])
        .bind(vec![record.binding_revision.as_str()])
        .fetch_one(tx)
        .await
        .expect("record_window.sql");
    row.get("observed")
}

/// Where a scan begins and how far it goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'k> {
    /// The key after which both ways begin.
    pub(super) after: &'k str,
    /// Most eligible rows of each way.
    pub(super) limit: i64,
    /// Most rows looked at on each way.
    pub(super) looked_at: i64,
}

impl Span<'static> {
    /// Everything, as a scan of one lane from its start sees it.
    pub(super) const WHOLE: Self = Self {
        after: "00",
        limit: 16,
        looked_at: 1_000,
    };
}

/// `scan.sql` in the lane of the sample's destination; the eligible events, and the key at which
/// the bound ended one of the ways, to go on from.
pub(super) async fn scan(
    connection: &mut PgConnection,
    text: &str,
    span: Span<'_>,
    request: &ClaimRequest,
) -> (Vec<String>, Option<String>) {
    let known = &request.known[0];
    let destination = known.destination.as_str();
    let lane = i16::from(Sha256Digest::of(destination.as_bytes()).as_bytes()[0]);
    let version = i32::try_from(known.contract.payload_version.value()).expect("a version");
    let rows = sqlx::query(AssertSqlSafe(text.to_owned()))
        .bind(lane)
        .bind(span.after)
        .bind(span.after)
        .bind(-1_i64)
        .bind(-1_i32)
        .bind("g")
        .bind(span.limit)
        .bind(span.looked_at)
        .bind(vec![known.contract.contract_id.as_str()])
        .bind(vec![version])
        .bind(vec![&known.payload_schema.as_bytes()[..]])
        .bind(vec![destination])
        .bind(vec![known.binding_revision.as_str()])
        .bind(false)
        .bind("g")
        .fetch_all(connection)
        .await
        .expect("scan.sql");
    let mut eligible = Vec::new();
    let mut stopped = None;
    for row in &rows {
        if row.get::<Option<&str>, _>("event_id").is_some() {
            eligible.push(row.get("found_event_id"));
        }
        if row.get("bounded") {
            stopped = Some(row.get("found_key"));
        }
    }
    (eligible, stopped)
}
