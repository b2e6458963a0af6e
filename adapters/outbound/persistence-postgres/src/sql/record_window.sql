-- Tx C of a batch. Each row is waited for and locked by key, in the order asked; then, by the clock
-- after the lock, each record has the valid-lease CAS of requirement 004 §18.6 and its attempt's
-- outcome in the journal, as `record_outcome.sql` does for one. A place that does not come back is
-- a record whose claim lapsed or is another worker's; it touches no other.
--
-- Rows are found by key once and updated by address. `live` counts what should have been moved: a
-- row that a renewal moved while it was waited for has an address that this statement cannot see,
-- and asks for another turn. A late observation that was written while its row was waited for has
-- the number that this statement takes, and refuses it; a batch of one locks its row before this
-- statement begins, so neither happens to it.
--
-- Arrays, one place a record: $1 event ids, $2 generations, $3 tokens, $4 owners, $5 new states,
-- $6 retry delays in microseconds, $7 certainties, $8 dispositions, $9 failure classes, $10 failure
-- stages, $11 producer generations, $12 record references, $13 acknowledgements in epoch
-- microseconds, $14 attempt ids, $15 token digests, $16 binding revisions.
WITH locked AS MATERIALIZED (
    SELECT given.*, d.address, d.claim_until
      FROM unnest(
        $1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[],
        $15::bytea[], $16::text[]
      ) WITH ORDINALITY AS given (
        event_id, generation, token, owner, state, delay, certainty, disposition, failure_class,
        failure_stage, producer_generation, record_reference, acknowledged, attempt_id,
        token_digest, binding_revision, place
      )
     CROSS JOIN LATERAL (
        SELECT d.ctid AS address, d.claim_until
          FROM outbox_delivery AS d
         WHERE d.event_id = given.event_id
           AND d.delivery_generation = given.generation
           AND d.authority_status = 'CURRENT'
           AND d.state = 'CLAIMED'
           AND d.claim_token = given.token
           AND d.claim_owner = given.owner
           FOR UPDATE OF d
     ) AS d
), asked AS MATERIALIZED (
    SELECT locked.*, last.observation_sequence + 1 AS next
      FROM locked
     CROSS JOIN LATERAL (
        SELECT observed.observation_sequence, observed.observation_type,
               observed.publication_attempt_id, observed.claim_token_digest
          FROM outbox_delivery_attempt_observation AS observed
         WHERE observed.event_id = locked.event_id
           AND observed.delivery_generation = locked.generation
         ORDER BY observed.event_id DESC, observed.delivery_generation DESC,
                  observed.observation_sequence DESC
         LIMIT 1
     ) AS last
     WHERE locked.claim_until > clock_timestamp()
       AND (
           (
               last.observation_type = 'ATTEMPT_ADMITTED'
               AND last.publication_attempt_id = locked.attempt_id
               AND last.claim_token_digest = locked.token_digest
           )
           -- Something was observed late since.
           OR EXISTS (
               SELECT 1
                 FROM outbox_delivery_attempt_observation AS admitted
                WHERE admitted.publication_attempt_id = locked.attempt_id
                  AND admitted.observation_type = 'ATTEMPT_ADMITTED'
                  AND admitted.event_id = locked.event_id
                  AND admitted.delivery_generation = locked.generation
                  AND admitted.claim_token_digest = locked.token_digest
               OFFSET 0
           )
       )
), moved AS (
    UPDATE outbox_delivery AS d
       SET state = asked.state,
           claim_token = NULL,
           claim_owner = NULL,
           claim_until = NULL,
           next_attempt_at = CASE WHEN asked.state = 'RETRY_WAIT'
               THEN clock_timestamp() + asked.delay * interval '1 microsecond' END,
           delivery_recorded_at =
               CASE WHEN asked.state = 'DELIVERY_RECORDED' THEN clock_timestamp() END,
           terminal_at = CASE WHEN asked.state <> 'RETRY_WAIT' THEN clock_timestamp() END,
           last_outcome_certainty = CASE
               WHEN asked.state = 'EXHAUSTED' AND EXISTS (
                   SELECT 1
                     FROM outbox_delivery_attempt_observation AS observed
                    WHERE observed.event_id = d.event_id
                      AND observed.delivery_generation = d.delivery_generation
                      AND observed.observation_type = 'OUTCOME_OBSERVED'
                      AND observed.acceptance_certainty = 'INDETERMINATE'
               ) THEN 'INDETERMINATE' ELSE asked.certainty END,
           last_failure_class = coalesce(asked.failure_class, d.last_failure_class),
           last_failure_stage = coalesce(asked.failure_stage, d.last_failure_stage),
           provider_generation = asked.producer_generation,
           provider_record_reference =
               CASE WHEN asked.state = 'DELIVERY_RECORDED' THEN asked.record_reference END,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
      FROM asked
     WHERE d.ctid = asked.address
       AND d.state = 'CLAIMED'
       AND d.claim_token = asked.token
       AND d.claim_until > clock_timestamp()
    RETURNING asked.place, asked.event_id, asked.generation, asked.attempt_id, asked.token_digest,
              asked.producer_generation, asked.binding_revision, asked.certainty,
              asked.disposition, asked.failure_class, asked.failure_stage, asked.record_reference,
              asked.acknowledged, asked.next
), observed AS (
    INSERT INTO outbox_delivery_attempt_observation (
        event_id, delivery_generation, publication_attempt_id, observation_sequence,
        observation_type, claim_token_digest, producer_generation, destination_binding_revision,
        acceptance_certainty, retry_disposition, failure_class, failure_stage,
        provider_record_reference, acknowledged_at
    )
    SELECT moved.event_id, moved.generation, moved.attempt_id, moved.next,
           'OUTCOME_OBSERVED', moved.token_digest, moved.producer_generation,
           moved.binding_revision, moved.certainty, moved.disposition, moved.failure_class,
           moved.failure_stage, moved.record_reference,
           timestamptz 'epoch' + moved.acknowledged * interval '1 microsecond'
      FROM moved
    RETURNING 1
)
SELECT coalesce(array_agg(moved.place), '{}') AS places,
       (SELECT count(*) FROM observed) AS observed,
       (SELECT count(*) FROM asked) AS live
  FROM moved
