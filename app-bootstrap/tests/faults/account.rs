//! What a fault run left, held against what must hold.
//!
//! Invariant: every count comes from rows and records, read after every process has ended.

use crate::scene::{ATTEMPTS, Scene};
use crate::writers::Written;
use domain_core::hashing::envelope_sha256;
use sqlx::{PgConnection, Row as _};
use std::collections::HashMap;
use std::time::Duration;

/// How long reading the topic may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) events: usize,
    pub(crate) recorded: i64,
    pub(crate) records: usize,
    pub(crate) duplicates: usize,
    pub(crate) attempts: i64,
    pub(crate) reclaims: i64,
    pub(crate) late: i64,
    pub(crate) requeued: i64,
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} events, {} recorded, {} records ({} duplicates), {} attempts, {} abandoned, {} late \
             observations, {} requeued",
            self.events,
            self.recorded,
            self.records,
            self.duplicates,
            self.attempts,
            self.reclaims,
            self.late,
            self.requeued
        )
    }
}

struct Stored {
    scope: String,
    sequence: i64,
    hash: Vec<u8>,
    reference: String,
}

/// Holds a drained outbox against its topic, its journal and its history.
pub(crate) async fn settle(scene: &Scene, written: &Written) -> Account {
    let stored = stored(scene).await;
    assert_eq!(stored.len(), written.committed.len(), "committed events");
    for id in &written.committed {
        assert!(stored.contains_key(id), "{id} was committed and is gone");
    }
    for id in &written.rolled_back {
        assert!(!stored.contains_key(id), "{id} was rolled back");
    }
    let broken = broken_rules(&mut scene.connect().await).await;
    assert!(broken.is_empty(), "{broken:?}");
    assert!(
        scene.count(MOST_ATTEMPTS).await <= ATTEMPTS,
        "more attempts than the budget"
    );
    let (records, duplicates) = topic(scene, &stored).await;
    let account = Account {
        events: stored.len(),
        recorded: scene
            .count("SELECT count(*) FROM outbox_delivery WHERE state = 'DELIVERY_RECORDED'")
            .await,
        records,
        duplicates,
        attempts: scene.count(ADMITTED).await,
        reclaims: scene.count(ABANDONED).await,
        late: scene.count(LATE).await,
        requeued: scene
            .count("SELECT count(*) FROM outbox_disposition_audit")
            .await,
    };
    assert_eq!(
        usize::try_from(account.recorded).expect("a count"),
        account.events,
        "recorded deliveries"
    );
    account
}

/// Superseded generations among them.
const MOST_ATTEMPTS: &str =
    "SELECT coalesce(max(publication_attempt_count), 0)::bigint FROM outbox_delivery";
const ADMITTED: &str = "SELECT count(*) FROM outbox_delivery_attempt_observation \
     WHERE observation_type = 'ATTEMPT_ADMITTED'";
const ABANDONED: &str = "SELECT count(*) FROM outbox_delivery_attempt_observation \
     WHERE observation_type = 'OUTCOME_OBSERVED' AND failure_class = 'ATTEMPT_ABANDONED'";
const LATE: &str = "SELECT count(*) FROM outbox_delivery_attempt_observation \
     WHERE observation_type = 'LATE_ACK_OBSERVED'";

async fn stored(scene: &Scene) -> HashMap<String, Stored> {
    sqlx::query(
        "SELECT e.event_id, e.partition_key_text, e.aggregate_sequence, e.envelope_sha256, \
         d.provider_record_reference, d.state, d.publication_attempt_count \
         FROM outbox_event AS e JOIN outbox_delivery AS d \
         ON d.event_id = e.event_id AND d.authority_status = 'CURRENT'",
    )
    .fetch_all(&mut scene.connect().await)
    .await
    .expect("events")
    .iter()
    .map(|row| {
        let id: String = row.get(0);
        let state: String = row.get(5);
        assert_eq!(state, "DELIVERY_RECORDED", "{id}");
        let attempts: i32 = row.get(6);
        assert!(attempts >= 1, "{id}");
        let stored = Stored {
            scope: row.get(1),
            sequence: row.get(2),
            hash: row.get(3),
            reference: row.get(4),
        };
        (id, stored)
    })
    .collect()
}

/// Every record is a committed event's document; the first of each are in their scope's order; and
/// the record that a delivery names is its own. Tells records and duplicates.
async fn topic(scene: &Scene, stored: &HashMap<String, Stored>) -> (usize, usize) {
    let records = read(scene).await;
    let mut last: HashMap<&str, (i32, i64)> = HashMap::new();
    let mut first: HashMap<&str, i64> = HashMap::new();
    let mut places = HashMap::new();
    let mut duplicates = 0;
    for record in &records {
        let event = stored
            .get(&record.id)
            .unwrap_or_else(|| panic!("{} is no committed event", record.id));
        assert_eq!(record.hash, event.hash, "{} has other bytes", record.id);
        places.insert((record.partition, record.offset), record.id.as_str());
        if first.contains_key(record.id.as_str()) {
            duplicates += 1;
            continue;
        }
        first.insert(&record.id, event.sequence);
        let before = last.entry(&event.scope).or_insert((record.partition, 0));
        assert_eq!(
            *before,
            (record.partition, event.sequence - 1),
            "{} is out of its scope's order",
            record.id
        );
        before.1 = event.sequence;
    }
    assert_eq!(first.len(), stored.len(), "events on the topic");
    for (id, event) in stored {
        let place = event
            .reference
            .rsplit_once('/')
            .and_then(|(_, place)| place.split_once('@'))
            .and_then(|(partition, offset)| Some((partition.parse().ok()?, offset.parse().ok()?)))
            .unwrap_or_else(|| panic!("{} names no record", event.reference));
        let there = places.get(&place).copied();
        assert_eq!(there, Some(id.as_str()), "{}", event.reference);
    }
    (records.len(), duplicates)
}

pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    hash: Vec<u8>,
}

/// The topic's records, each partition in its order.
pub(crate) async fn read(scene: &Scene) -> Vec<Record> {
    let (servers, topic) = (vec![scene.bootstrap.clone()], scene.topic.clone());
    let read = move || {
        let mut records = Vec::new();
        outbound_messaging_kafka::read_back_topic(&servers, &topic, PATIENCE, |record| {
            records.push(Record {
                id: record.id.expect("an id").to_owned(),
                partition: record.partition,
                offset: record.offset,
                hash: envelope_sha256(record.value).as_bytes().to_vec(),
            });
        })
        .map(|_| records)
    };
    tokio::task::spawn_blocking(read)
        .await
        .expect("reader")
        .expect("the topic is read to its end")
}

/// The rules that something breaks, by their names.
pub(crate) async fn broken_rules(connection: &mut PgConnection) -> Vec<&'static str> {
    let mut broken = Vec::new();
    for (rule, query) in RULES {
        let found: i64 = sqlx::query(query)
            .fetch_one(&mut *connection)
            .await
            .expect("counts")
            .get(0);
        if found > 0 {
            broken.push(rule);
        }
    }
    broken
}

/// What no row of the journal, or of the history that the adapter knows nothing of, may be: the name
/// of the rule, and a query that counts what breaks it. The trigger looks at the clock a little after
/// the statement that it belongs to did.
const RULES: [(&str, &str); 9] = [
    (
        "attempts follow one another, each admitted and closed once under one token",
        "WITH one AS (
             SELECT observation_type AS type, publication_attempt_id AS attempt,
                    claim_token_digest AS digest,
                    lag(observation_type) OVER generation AS type_before,
                    lag(publication_attempt_id) OVER generation AS attempt_before,
                    lag(claim_token_digest) OVER generation AS digest_before,
                    lead(observation_type) OVER generation AS type_after
               FROM outbox_delivery_attempt_observation
              WHERE observation_type <> 'LATE_ACK_OBSERVED'
             WINDOW generation AS (
                 PARTITION BY event_id, delivery_generation ORDER BY observation_sequence
             )
         )
         SELECT count(*) FROM one WHERE NOT CASE type
             WHEN 'ATTEMPT_ADMITTED' THEN
                 coalesce(type_before, 'OUTCOME_OBSERVED') = 'OUTCOME_OBSERVED'
                 AND type_after IS NOT DISTINCT FROM 'OUTCOME_OBSERVED'
             ELSE type_before IS NOT DISTINCT FROM 'ATTEMPT_ADMITTED'
                 AND attempt = attempt_before AND digest = digest_before
         END",
    ),
    (
        "a late observation belongs to an attempt that was admitted before, under the same token",
        "SELECT count(*) FROM outbox_delivery_attempt_observation AS late
          WHERE late.observation_type = 'LATE_ACK_OBSERVED' AND NOT EXISTS (
              SELECT 1 FROM outbox_delivery_attempt_observation AS admitted
               WHERE admitted.event_id = late.event_id
                 AND admitted.delivery_generation = late.delivery_generation
                 AND admitted.publication_attempt_id = late.publication_attempt_id
                 AND admitted.observation_type = 'ATTEMPT_ADMITTED'
                 AND admitted.claim_token_digest = late.claim_token_digest
                 AND admitted.observation_sequence < late.observation_sequence
          )",
    ),
    (
        "attempts are counted as they were admitted",
        "SELECT count(*) FROM outbox_delivery AS d
          WHERE d.claim_count <> d.publication_attempt_count
             OR d.publication_attempt_count <> (
                 SELECT count(*) FROM outbox_delivery_attempt_observation AS o
                  WHERE o.event_id = d.event_id AND o.delivery_generation = d.delivery_generation
                    AND o.observation_type = 'ATTEMPT_ADMITTED'
             )",
    ),
    (
        "what is recorded was accepted in its last attempt, under its reference",
        "SELECT count(*) FROM outbox_delivery AS d
          WHERE d.state = 'DELIVERY_RECORDED' AND NOT coalesce((
              SELECT o.acceptance_certainty = 'ACCEPTED'
                     AND o.provider_record_reference = d.provider_record_reference
                FROM outbox_delivery_attempt_observation AS o
               WHERE o.event_id = d.event_id AND o.delivery_generation = d.delivery_generation
                 AND o.observation_type = 'OUTCOME_OBSERVED'
               ORDER BY o.observation_sequence DESC LIMIT 1
          ), false)",
    ),
    (
        "a recorded row was written once for each claim and once for each worker's outcome",
        "SELECT count(*) FROM outbox_delivery AS d
          WHERE d.state = 'DELIVERY_RECORDED' AND d.row_version - 1 <> (
              SELECT count(*) FROM outbox_delivery_attempt_observation AS o
               WHERE o.event_id = d.event_id AND o.delivery_generation = d.delivery_generation
                 AND (
                     o.observation_type = 'ATTEMPT_ADMITTED'
                     OR o.observation_type = 'OUTCOME_OBSERVED'
                         AND o.failure_class IS DISTINCT FROM 'ATTEMPT_ABANDONED'
                 )
          )",
    ),
    (
        "a lapsed token changed nothing",
        "SELECT count(*) FROM fault_history AS h
          WHERE h.old_state = 'CLAIMED' AND h.old_until < h.changed_at - interval '1 second'
            AND NOT EXISTS (
                SELECT 1 FROM outbox_delivery_attempt_observation AS o
                 WHERE o.event_id = h.event_id AND o.delivery_generation = h.generation
                   AND o.claim_token_digest = h.old_digest
                   AND o.failure_class = 'ATTEMPT_ABANDONED'
            )",
    ),
    (
        "a live claim is not taken from its owner",
        "SELECT count(*) FROM fault_history
          WHERE old_state = 'CLAIMED' AND new_state = 'CLAIMED'
            AND old_digest IS DISTINCT FROM new_digest AND old_until > changed_at",
    ),
    (
        "no change of a row is missing or doubled",
        "SELECT count(*) FROM outbox_delivery AS d
          WHERE (
              SELECT (count(*), coalesce(min(h.old_version), 1),
                      count(DISTINCT h.new_version), coalesce(max(h.new_version), 1))
                FROM fault_history AS h
               WHERE h.event_id = d.event_id AND h.generation = d.delivery_generation
          ) <> (d.row_version - 1, 1::bigint, d.row_version - 1, d.row_version)",
    ),
    (
        "each change of a claimed row is journalled under the token that the row had",
        "SELECT count(*) FROM fault_history AS h
          WHERE h.old_state = 'CLAIMED' AND NOT EXISTS (
              SELECT 1 FROM outbox_delivery_attempt_observation AS o
               WHERE o.event_id = h.event_id AND o.delivery_generation = h.generation
                 AND o.claim_token_digest = h.old_digest
                 AND o.observation_type = 'OUTCOME_OBSERVED'
                 AND (h.new_state <> 'DELIVERY_RECORDED' OR o.acceptance_certainty = 'ACCEPTED')
          )",
    ),
];
