//! Holding database, broker and read model against each other.
//!
//! Invariant: an event is accounted for when it is recorded and the broker has its exact document,
//! or when it stands in `EXHAUSTED` or `HOLD` and is counted as unresolved; nothing else is.

use super::commit::Committed;
use super::error::DemoError;
use super::progress::Progress;
use application_core::ports::{DeliverySummary, OutboxQueryPort};
use domain_core::delivery::DeliveryStateName;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::EventId;
use portfolio::input::RefusedLine;
use std::collections::HashMap;

/// Rows read at a time.
const PAGE: u32 = 500;
/// Events listed one by one; beyond that only those that need a word.
const LISTED_EVENTS: usize = 1000;

/// What the broker holds.
#[derive(Debug)]
pub(super) struct BrokerView {
    /// Where the broker's log ends, for people.
    pub(super) position: String,
    /// Records by event id: the first document's hash, and how many records.
    documents: HashMap<EventId, (Sha256Digest, u64)>,
    /// Records in all.
    pub(super) records: u64,
    /// Records of an event id that came with two documents.
    pub(super) collisions: u64,
    /// Records that are no envelope of version 1.
    pub(super) foreign: u64,
    /// Records whose key, headers or topic contradict their document.
    pub(super) misplaced: u64,
    /// Records that the consumer refused.
    pub(super) refused_by_consumer: u64,
}

impl BrokerView {
    /// Nothing seen yet.
    pub(super) fn at(position: String) -> Self {
        Self {
            position,
            documents: HashMap::new(),
            records: 0,
            collisions: 0,
            foreign: 0,
            misplaced: 0,
            refused_by_consumer: 0,
        }
    }

    /// One record.
    pub(super) fn saw(&mut self, event_id: EventId, sha256: Sha256Digest) {
        self.records += 1;
        let entry = self.documents.entry(event_id).or_insert((sha256, 0));
        entry.1 += 1;
        if entry.0 != sha256 {
            self.collisions += 1;
        }
    }

    /// One record that contradicts its own document.
    pub(super) fn saw_misplaced(&mut self) {
        self.records += 1;
        self.misplaced += 1;
    }

    /// One record that says nothing this process understands.
    pub(super) fn saw_foreign(&mut self) {
        self.records += 1;
        self.foreign += 1;
    }
}

/// How one event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Recorded at the first attempt, and the broker has it.
    Ok,
    /// Recorded after more than one attempt, and the broker has it.
    Retried,
    /// `HOLD`: unresolved, an operator decides.
    Held,
    /// `EXHAUSTED`: unresolved, an operator decides.
    Exhausted,
    /// Not published yet.
    Pending,
    /// Recorded, but the broker does not have its document.
    Lost,
    /// Released or accepted by an operator.
    Disposed,
}

impl Verdict {
    /// The word for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Retried => "retried",
            Self::Held => "held",
            Self::Exhausted => "exhausted",
            Self::Pending => "pending",
            Self::Lost => "lost",
            Self::Disposed => "disposed",
        }
    }
}

/// One event's line.
#[derive(Debug)]
pub(super) struct EventLine {
    /// Where it stands in the outbox.
    pub(super) delivery: DeliverySummary,
    /// How it ended.
    pub(super) verdict: Verdict,
}

/// The whole account.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Input lines.
    pub(super) lines: u64,
    /// Lines whose event was committed by an earlier run.
    pub(super) known_before: u64,
    /// Refused lines.
    pub(super) refused: u64,
    /// The first of them.
    pub(super) refusals: Vec<RefusedLine>,
    /// Rows of `outbox_event`.
    pub(super) committed: u64,
    /// Lines whose commit was reported, but whose row is not there.
    pub(super) vanished: u64,
    /// Why publication was given up, where it was.
    pub(super) stuck: Option<String>,
    /// Events without a delivery.
    pub(super) without_delivery: u64,
    /// `DELIVERY_RECORDED`.
    pub(super) recorded: u64,
    /// More than one attempt.
    pub(super) retried: u64,
    /// `EXHAUSTED`.
    pub(super) exhausted: u64,
    /// `HOLD`.
    pub(super) held: u64,
    /// Disposed of by an operator.
    pub(super) disposed: u64,
    /// Still on its way.
    pub(super) pending: u64,
    /// Recorded without a record at the broker.
    pub(super) lost: u64,
    /// Events in the read model, where the tuple has a consumer.
    pub(super) applied: Option<u64>,
    /// Records at the broker.
    pub(super) broker_records: u64,
    /// Events of this outbox at the broker.
    pub(super) broker_events: u64,
    /// Events at the broker that this outbox does not have.
    pub(super) broker_unknown: u64,
    /// Further records of the same event and document: what a crash may cause.
    pub(super) broker_duplicates: u64,
    /// Records with another document under the same event id.
    pub(super) collisions: u64,
    /// Records that are no envelope.
    pub(super) foreign: u64,
    /// Records whose key, headers or topic contradict their document.
    pub(super) misplaced: u64,
    /// Records refused by the consumer.
    pub(super) refused_by_consumer: u64,
    /// Where the broker's log ends.
    pub(super) broker_position: String,
    /// Events one by one, the unremarkable ones only up to a bound.
    pub(super) events: Vec<EventLine>,
    /// Unremarkable events beyond that bound.
    pub(super) unlisted: u64,
}

impl Account {
    /// Whether everything that was committed is accounted for.
    pub(super) fn is_complete(&self) -> bool {
        self.open_points().is_empty()
    }

    /// What is not accounted for, in words.
    pub(super) fn open_points(&self) -> Vec<String> {
        let stands = self.recorded + self.exhausted + self.held + self.disposed;
        let unplaced = self.committed.saturating_sub(stands + self.pending);
        let counted = [
            (self.vanished, "committed lines are not in the outbox"),
            (self.pending, "deliveries are still pending"),
            (self.lost, "recorded events have no record at the broker"),
            (self.without_delivery, "events have no delivery"),
            (unplaced, "events stand in no known state"),
            (
                self.collisions,
                "records carry another document of an event",
            ),
            (
                self.misplaced,
                "records contradict their key, headers or topic",
            ),
            (
                self.refused_by_consumer,
                "records were refused by the consumer",
            ),
        ];
        let mut points: Vec<String> = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let distinct = self.broker_events + self.broker_unknown;
        if let Some(applied) = self.applied
            && applied != distinct
        {
            points.push(format!(
                "{applied} events are applied, but the broker has {distinct}"
            ));
        }
        points.extend(self.stuck.clone());
        points
    }

    fn add(&mut self, delivery: DeliverySummary, broker: &BrokerView) {
        let found = broker.documents.get(&delivery.event_id);
        let same = found.is_some_and(|(sha256, _)| *sha256 == delivery.envelope_sha256);
        if let Some((_, records)) = found {
            self.broker_events += 1;
            self.broker_duplicates += records - 1;
        }
        if delivery.attempt_count > 1 {
            self.retried += 1;
        }
        let verdict = match delivery.state {
            DeliveryStateName::DeliveryRecorded => {
                self.recorded += 1;
                match (same, delivery.attempt_count) {
                    (false, _) => {
                        self.lost += 1;
                        Verdict::Lost
                    }
                    (true, 0 | 1) => Verdict::Ok,
                    (true, _) => Verdict::Retried,
                }
            }
            DeliveryStateName::Exhausted => {
                self.exhausted += 1;
                Verdict::Exhausted
            }
            DeliveryStateName::Hold | DeliveryStateName::LegacyRecordedUnverified => {
                self.held += 1;
                Verdict::Held
            }
            DeliveryStateName::Skipped
            | DeliveryStateName::Compensated
            | DeliveryStateName::LegacyAcceptedUnverified => {
                self.disposed += 1;
                Verdict::Disposed
            }
            DeliveryStateName::Ready
            | DeliveryStateName::Claimed
            | DeliveryStateName::RetryWait => {
                self.pending += 1;
                Verdict::Pending
            }
        };
        if verdict != Verdict::Ok || self.events.len() < LISTED_EVENTS {
            self.events.push(EventLine { delivery, verdict });
        } else {
            self.unlisted += 1;
        }
    }
}

/// Reads every delivery and compares.
pub(super) async fn account(
    query: &dyn OutboxQueryPort,
    broker: BrokerView,
    applied: Option<u64>,
    committed: Committed,
    stuck: Option<String>,
    progress: &Progress,
) -> Result<Account, DemoError> {
    let counts = query.counts().await.map_err(DemoError::Query)?;
    let mut account = Account {
        lines: committed.lines,
        known_before: committed.known_before,
        refused: committed.refused,
        refusals: committed.refusals,
        committed: counts.events,
        vanished: (committed.events_before + committed.executed).saturating_sub(counts.events),
        stuck,
        without_delivery: counts.without_delivery,
        applied,
        broker_records: broker.records,
        collisions: broker.collisions,
        foreign: broker.foreign,
        misplaced: broker.misplaced,
        refused_by_consumer: broker.refused_by_consumer,
        broker_position: broker.position.clone(),
        ..Account::default()
    };
    let bar = progress.bar(Some(counts.events), "account");
    let mut after: Option<EventId> = None;
    loop {
        let page = query
            .deliveries_after(after.as_ref(), PAGE)
            .await
            .map_err(DemoError::Query)?;
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.event_id.clone());
        bar.inc(page.len() as u64);
        for delivery in page {
            account.add(delivery, &broker);
        }
    }
    bar.finish_and_clear();
    let distinct = u64::try_from(broker.documents.len()).unwrap_or(u64::MAX);
    account.broker_unknown = distinct.saturating_sub(account.broker_events);
    Ok(account)
}
