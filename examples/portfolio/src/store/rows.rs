//! Rows to values, the same for both dialects.
//!
//! Invariant: a row that breaks a rule of its type is an error that names the column, never a
//! default.

use super::{Observation, ReadModelCounts, ReadModelEntry, StoreError};
use crate::contracts::{Audience, CompletionStatus};
use crate::model::{Completion, OneLine, Poster, WorkLog, WorkLogState};
use domain_core::identity::{AggregateId, AggregateIdentity, AggregateSequence, AggregateType};

/// version, title, minutes, tags, status, minutes spent, follow-up needed.
pub(super) type WorkLogRow = (
    i64,
    String,
    i64,
    String,
    Option<String>,
    Option<i64>,
    Option<bool>,
);
/// version, title, edition, audience, author name, author team, on display until.
pub(super) type PosterRow = (i64, String, i64, String, String, String, String);
/// kind, id, title, status, event count, last sequence.
pub(super) type EntryRow = (String, String, Option<String>, String, i64, i64);
/// aggregates, events, work logs, posters.
pub(super) type CountsRow = (i64, i64, i64, i64);

/// The columns of a work log that are not text or number already.
pub(super) struct WorkLogColumns {
    pub(super) tags: String,
    pub(super) status: Option<&'static str>,
    pub(super) minutes_spent: Option<i64>,
    pub(super) follow_up_needed: Option<bool>,
}

impl WorkLogColumns {
    pub(super) fn of(work_log: &WorkLog) -> Self {
        let completion = match work_log.state {
            WorkLogState::Reserved => None,
            WorkLogState::Completed(completion) => Some(completion),
        };
        let tags: Vec<_> = work_log.tags.iter().map(OneLine::as_str).collect();
        Self {
            tags: serde_json::Value::from(tags).to_string(),
            status: completion.map(|end| end.status.as_str()),
            minutes_spent: completion.map(|end| end.minutes_spent),
            follow_up_needed: completion.map(|end| end.follow_up_needed),
        }
    }
}

pub(super) fn work_log(id: &AggregateId, row: WorkLogRow) -> Result<WorkLog, StoreError> {
    let (version, title, minutes, tags, status, minutes_spent, follow_up_needed) = row;
    let state = match (status, minutes_spent, follow_up_needed) {
        (None, None, None) => WorkLogState::Reserved,
        (Some(status), Some(minutes_spent), Some(follow_up_needed)) => {
            WorkLogState::Completed(Completion {
                minutes_spent,
                status: CompletionStatus::parse(&status).ok_or_else(|| corrupt("status"))?,
                follow_up_needed,
            })
        }
        _ => return Err(corrupt("status")),
    };
    let tags: Vec<String> = serde_json::from_str(&tags).map_err(|_| corrupt("tags"))?;
    Ok(WorkLog {
        id: id.clone(),
        version: sequence("version", version)?,
        title: line("title", title)?,
        minutes,
        tags: tags
            .into_iter()
            .map(|tag| line("tags", tag))
            .collect::<Result<_, _>>()?,
        state,
    })
}

pub(super) fn poster(id: &AggregateId, row: PosterRow) -> Result<Poster, StoreError> {
    let (version, title, edition, audience, author_name, author_team, on_display_until) = row;
    Ok(Poster {
        id: id.clone(),
        version: sequence("version", version)?,
        title: line("title", title)?,
        edition,
        audience: Audience::parse(&audience).ok_or_else(|| corrupt("audience"))?,
        author_name: line("author_name", author_name)?,
        author_team: line("author_team", author_team)?,
        on_display_until: line("on_display_until", on_display_until)?,
    })
}

pub(super) fn entry(row: EntryRow) -> Result<ReadModelEntry, StoreError> {
    let (kind, id, title, status, event_count, last_sequence) = row;
    Ok(ReadModelEntry {
        aggregate: AggregateIdentity::new(
            AggregateType::parse(kind).map_err(|_| corrupt("aggregate_type"))?,
            AggregateId::parse(id).map_err(|_| corrupt("aggregate_id"))?,
        ),
        title,
        status,
        event_count: count("event_count", event_count)?,
        last_sequence: sequence("last_sequence", last_sequence)?,
    })
}

pub(super) fn counts(row: CountsRow) -> Result<ReadModelCounts, StoreError> {
    let (aggregates, events, work_logs, posters) = row;
    Ok(ReadModelCounts {
        aggregates: count("aggregates", aggregates)?,
        events: count("events", events)?,
        work_logs: count("work logs", work_logs)?,
        posters: count("posters", posters)?,
    })
}

/// The key that a listing begins after; no key is smaller than two empty texts.
pub(super) fn key(after: Option<&AggregateIdentity>) -> (&str, &str) {
    after.map_or(("", ""), |aggregate| {
        (aggregate.aggregate_type().as_str(), aggregate.id().as_str())
    })
}

/// Kind, id, title, status and sequence of an observation, as columns.
pub(super) fn observation(observed: &Observation) -> (&str, &str, Option<&str>, &str, i64) {
    let (kind, id) = key(Some(&observed.aggregate));
    let sequence = observed.sequence.value();
    (
        kind,
        id,
        observed.title.as_deref(),
        observed.status,
        sequence,
    )
}

fn sequence(column: &str, number: i64) -> Result<AggregateSequence, StoreError> {
    AggregateSequence::new(number).map_err(|_| corrupt(column))
}

fn count(column: &str, number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| corrupt(column))
}

fn line(column: &str, text: String) -> Result<OneLine, StoreError> {
    OneLine::parse(text).map_err(|_| corrupt(column))
}

fn corrupt(column: &str) -> StoreError {
    StoreError::Corrupt {
        what: format!("column {column} breaks its rule"),
    }
}
