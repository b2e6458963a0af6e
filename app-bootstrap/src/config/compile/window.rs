//! The window claim card's bounds.
//!
//! Invariant: a tuple with that card has them and no other has; every window fits into the permits
//! that all workers share (requirement 004 §18.8).

use super::super::cards::Tuple;
use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::profile::WindowProfile;
use super::super::raw::RawWindow;
use super::origin::Origin;
use super::provider::Timing;
use std::num::NonZeroU32;

/// Workers of a tuple that claims one record each; more would only wait for each other.
const PER_RECORD_WORKERS: u32 = 64;

pub(super) fn compile(
    at: &Origin<'_>,
    tuple: Tuple,
    raw: Option<&RawWindow>,
    timing: &Timing,
) -> Result<Option<WindowProfile>, ConfigError> {
    let admitted = timing.maximum_admitted_records;
    let permits = format!("{}.maximum-admitted-records", timing.section);
    let raw = match (tuple, raw) {
        (Tuple::LocalKafkaWindow, Some(raw)) => raw,
        (Tuple::LocalKafkaWindow, None) => {
            let rule = "is required by the window claim card";
            return Err(at.refuse_as(StartCode::ClaimSettingsMissing, "outbox.window", rule));
        }
        (_, Some(_)) => {
            return Err(at.unused("outbox.window", "is used by the window claim card alone"));
        }
        (_, None) if admitted > PER_RECORD_WORKERS => {
            return Err(at.refuse(
                &permits,
                format!("is {admitted}; a claim card of one record a claim allows 1 to 64"),
            ));
        }
        (_, None) => return Ok(None),
    };
    let workers = at.count("outbox.window.workers", raw.workers, 1, 64)?;
    let records = at.count("outbox.window.records", raw.records, 1, 10_000)?;
    if workers.saturating_mul(records) > admitted {
        return Err(at.refuse_as(
            StartCode::BudgetRelation,
            &permits,
            format!(
                "is {admitted}, but window.workers * window.records is {}",
                workers.saturating_mul(records)
            ),
        ));
    }
    Ok(Some(WindowProfile {
        workers,
        records: NonZeroU32::new(records).unwrap_or(NonZeroU32::MIN),
        enqueue_budget: at.duration("outbox.window.enqueue-budget", &raw.enqueue_budget)?,
    }))
}
