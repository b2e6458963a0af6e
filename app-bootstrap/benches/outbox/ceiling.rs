//! The database's own ceiling: the window card's writes by known keys, without reads or publishing.
//!
//! Invariant: the same sessions, batch size, indexes, triggers, synced commits and row writes per event
//! as the card's.

use crate::place::Database;
use sqlx::Row as _;
use std::time::Instant;

/// Sessions and batch of `local-kafka-window.toml`.
const SESSIONS: usize = 4;
const BATCH: usize = 1_000;

const CLAIM: &str = "WITH claimed AS ( \
     UPDATE outbox_delivery AS d SET state = 'CLAIMED', claim_token = decode(md5(d.event_id), 'hex'), \
         claim_owner = 'w', claim_until = clock_timestamp() + interval '1 minute', \
         claim_count = 1, publication_attempt_count = 1, first_attempt_at = clock_timestamp(), \
         row_version = row_version + 1, updated_at = clock_timestamp() \
     FROM unnest($1::text[]) AS asked (event_id) \
     WHERE d.event_id = asked.event_id AND d.delivery_generation = 1 \
     RETURNING d.event_id, d.destination_binding_revision) \
 INSERT INTO outbox_delivery_attempt_observation (event_id, delivery_generation, \
     publication_attempt_id, observation_sequence, observation_type, claim_token_digest, \
     producer_generation, destination_binding_revision) \
 SELECT event_id, 1, gen_random_uuid()::text, 1, 'ATTEMPT_ADMITTED', sha256(event_id::bytea), 'g', \
     destination_binding_revision FROM claimed";

const RECORD: &str = "WITH moved AS ( \
     UPDATE outbox_delivery AS d SET state = 'DELIVERY_RECORDED', claim_token = NULL, \
         claim_owner = NULL, claim_until = NULL, delivery_recorded_at = clock_timestamp(), \
         terminal_at = clock_timestamp(), last_outcome_certainty = 'ACCEPTED', \
         provider_generation = 'g', provider_record_reference = 'bench/0@1', \
         row_version = row_version + 1, updated_at = clock_timestamp() \
     FROM unnest($1::text[]) AS asked (event_id) \
     WHERE d.event_id = asked.event_id AND d.delivery_generation = 1 \
     RETURNING d.event_id, d.destination_binding_revision) \
 INSERT INTO outbox_delivery_attempt_observation (event_id, delivery_generation, \
     publication_attempt_id, observation_sequence, observation_type, claim_token_digest, \
     producer_generation, destination_binding_revision, acceptance_certainty, retry_disposition, \
     provider_record_reference, acknowledged_at) \
 SELECT event_id, 1, gen_random_uuid()::text, 2, 'OUTCOME_OBSERVED', sha256(event_id::bytea), 'g', \
     destination_binding_revision, 'ACCEPTED', 'NO_RETRY', 'bench/0@1', clock_timestamp() FROM moved";

/// Events a second, over a copy of a filled database.
pub(crate) async fn rate(filled: &Database) -> f64 {
    let database = filled.copy().await;
    let mut watch = database.connect().await;
    sqlx::raw_sql("ANALYZE; CHECKPOINT")
        .execute(&mut watch)
        .await
        .expect("analyzed");
    // In the scan's order, the sessions' shares one after another.
    let ids: Vec<String> = sqlx::query(
        "SELECT event_id FROM outbox_delivery ORDER BY aggregate_sequence, partition_key_text",
    )
    .fetch_all(&mut watch)
    .await
    .expect("ids")
    .iter()
    .map(|row| row.get(0))
    .collect();
    let batches: Vec<Vec<String>> = ids.chunks(BATCH).map(<[String]>::to_vec).collect();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = database.connect().await;
        sqlx::raw_sql(
            "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
             SET plan_cache_mode = force_generic_plan",
        )
        .execute(&mut session)
        .await
        .expect("set");
        sessions.push(session);
    }
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (index, mut session) in sessions.into_iter().enumerate() {
        let own: Vec<_> = batches
            .iter()
            .skip(index)
            .step_by(SESSIONS)
            .cloned()
            .collect();
        tasks.spawn(async move {
            for batch in own {
                for statement in [CLAIM, RECORD] {
                    sqlx::query(statement)
                        .bind(&batch)
                        .execute(&mut session)
                        .await
                        .expect("written");
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("a session");
    }
    let took = began.elapsed();
    drop(watch);
    database.remove().await;
    ids.len() as f64 / took.as_secs_f64()
}
