//! The summary, for people and for programs.
//!
//! Invariant: both say the same figures.

use super::account::{Account, EventLine};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The summary for people.
pub(super) fn text(account: &Account) -> String {
    let mut text = String::new();
    for line in &account.events {
        let _ = writeln!(text, "{}", event_text(line));
    }
    if account.unlisted > 0 {
        let _ = writeln!(text, "… and {} more, each ok", account.unlisted);
    }
    let applied = account.applied.map_or(
        "not counted: this build has no Kafka consumer".to_owned(),
        |applied| applied.to_string(),
    );
    let _ = write!(
        text,
        "\nlines      {} read, {} refused, {} committed by an earlier run\n\
         committed  {}\n\
         recorded   {} ({} after more than one attempt)\n\
         unresolved {} exhausted, {} held\n\
         broker     {} records, {} of them repeats of the same event and document, {} foreign; ends \
         at {}\n\
         applied    {applied}\n\
         {}",
        account.lines,
        account.refused,
        account.known_before,
        account.committed,
        account.recorded,
        account.retried,
        account.exhausted,
        account.held,
        account.broker_records,
        account.broker_duplicates,
        account.foreign,
        account.broker_position,
        verdict(account),
    );
    text
}

/// The summary for programs.
pub(super) fn json(account: &Account) -> String {
    let events: Vec<Value> = account
        .events
        .iter()
        .map(|line| {
            json!({
                "eventId": line.delivery.event_id.as_str(),
                "contractId": line.delivery.contract_id.as_str(),
                "verdict": line.verdict.as_str(),
                "state": line.delivery.state.as_str(),
                "attempts": line.delivery.attempt_count,
                "record": line.delivery.record_reference,
            })
        })
        .collect();
    let refusals: Vec<Value> = account
        .refusals
        .iter()
        .map(|line| {
            json!({
                "line": line.line,
                "contract": line.refusal.contract.as_ref().map(ToString::to_string),
                "pointer": line.refusal.pointer,
                "rule": line.refusal.rule.to_string(),
            })
        })
        .collect();
    json!({
        "lines": account.lines,
        "knownBefore": account.known_before,
        "refused": account.refused,
        "committed": account.committed,
        "recorded": account.recorded,
        "retried": account.retried,
        "exhausted": account.exhausted,
        "held": account.held,
        "disposed": account.disposed,
        "pending": account.pending,
        "lost": account.lost,
        "vanished": account.vanished,
        "openPoints": account.open_points(),
        "applied": account.applied,
        "refusedByConsumer": account.refused_by_consumer,
        "brokerRecords": account.broker_records,
        "brokerEvents": account.broker_events,
        "brokerForeign": account.foreign,
        "brokerMisplaced": account.misplaced,
        "brokerUnknownEvents": account.broker_unknown,
        "brokerDuplicates": account.broker_duplicates,
        "brokerCollisions": account.collisions,
        "brokerPosition": account.broker_position,
        "accountedFor": account.is_complete(),
        "events": events,
        "eventsUnlisted": account.unlisted,
        "refusals": refusals,
    })
    .to_string()
}

fn event_text(line: &EventLine) -> String {
    let delivery = &line.delivery;
    let record = delivery.record_reference.as_deref().unwrap_or("-");
    format!(
        "{:9} {}  {}  attempts {}  {record}",
        line.verdict.as_str(),
        delivery.event_id,
        delivery.contract_id,
        delivery.attempt_count,
    )
}

fn verdict(account: &Account) -> String {
    let open = account.open_points();
    if !open.is_empty() {
        return format!("NOT accounted for: {}", open.join("; "));
    }
    match account.exhausted + account.held {
        0 => "every committed event is accounted for".to_owned(),
        unresolved => format!(
            "every committed event is accounted for; {unresolved} are unresolved and wait for an \
             operator"
        ),
    }
}
