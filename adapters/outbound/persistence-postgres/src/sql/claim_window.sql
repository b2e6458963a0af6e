-- Tx B of a window. Locks the ACTIVE polling epoch and the claim gate, then each asked row by key,
-- in the order asked, with the whole predicate again; what another transaction holds is skipped
-- with its scope, and what changed since it was found is left. Locked rows are judged by the clock
-- after the lock: claimed and journalled, or, when no whole attempt fits before the deadline, moved
-- to EXHAUSTED. A row that comes back is one that was changed.
--
-- The subquery that locks is never merged into the join, so it runs once an asked row, by key; the
-- updates go by the rows' addresses, which the locks keep.
--
-- $1 event ids, $2 generations, $3 row versions, $4 tokens, $5 token digests, $6 attempt ids,
-- $7 owner, $8 lease and $9 attempt budget in microseconds, $10 producer generation, $11 failure
-- class and $12 stage of a spent budget, $13 whether the journal of a delivery that was never
-- attempted is read too; it is empty but for what was observed late.
WITH epoch AS MATERIALIZED (
    SELECT epoch_id
      FROM outbox_publication_epoch
     WHERE state = 'ACTIVE'
       AND authority = 'POLLING_V2'
       FOR SHARE
), gate AS MATERIALIZED (
    SELECT everything, destinations, scopes, events
      FROM outbox_claim_gate
       FOR SHARE
), asked AS MATERIALIZED (
    SELECT asked.*
      FROM epoch
     CROSS JOIN gate
     CROSS JOIN unnest(
        $1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::text[]
     ) WITH ORDINALITY AS asked
        (event_id, generation, row_version, token, token_digest, attempt_id, place)
     WHERE NOT gate.everything
       AND asked.event_id <> ALL (gate.events)
       AND (
           gate.destinations = '{}' AND gate.scopes = '{}'
           OR EXISTS (
               SELECT 1
                 FROM outbox_event AS e
                WHERE e.event_id = asked.event_id
                  AND e.logical_destination_id <> ALL (gate.destinations)
                  AND e.partition_key_text <> ALL (gate.scopes)
               OFFSET 0
           )
       )
), locked AS MATERIALIZED (
    SELECT asked.*, d.address, d.automatic_attempt_deadline, d.publication_attempt_count,
           d.destination_binding_revision
      FROM asked
     CROSS JOIN LATERAL (
        SELECT d.ctid AS address, d.automatic_attempt_deadline, d.publication_attempt_count,
               d.destination_binding_revision
          FROM outbox_delivery AS d
         WHERE d.event_id = asked.event_id
           AND d.delivery_generation = asked.generation
           AND d.row_version = asked.row_version
           AND d.authority_status = 'CURRENT'
           AND (
               d.state = 'READY'
               OR (d.state = 'RETRY_WAIT' AND d.next_attempt_at <= clock_timestamp())
           )
           AND (
               NOT d.ordering_required
               OR NOT EXISTS (
                   SELECT 1
                     FROM outbox_delivery AS earlier
                    WHERE earlier.blocks_scope
                      AND earlier.claim_lane = d.claim_lane
                      AND earlier.partition_key_text = d.partition_key_text
                      AND (earlier.aggregate_sequence, earlier.aggregate_event_index)
                          < (d.aggregate_sequence, d.aggregate_event_index)
                   OFFSET 0
               )
           )
           FOR UPDATE OF d SKIP LOCKED
     ) AS d
), judged AS MATERIALIZED (
    SELECT locked.*,
           clock_timestamp() + $9::bigint * interval '1 microsecond'
               > locked.automatic_attempt_deadline AS spent
      FROM locked
), claimed AS (
    UPDATE outbox_delivery AS d
       SET state = 'CLAIMED',
           claim_token = judged.token,
           claim_owner = $7::text,
           claim_until = clock_timestamp() + $8::bigint * interval '1 microsecond',
           claim_count = d.claim_count + 1,
           publication_attempt_count = d.publication_attempt_count + 1,
           first_attempt_at = coalesce(d.first_attempt_at, clock_timestamp()),
           next_attempt_at = NULL,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
      FROM judged
     WHERE d.ctid = judged.address
       AND NOT judged.spent
    RETURNING judged.place, d.claim_until, d.claim_count, d.publication_attempt_count
), admitted AS (
    INSERT INTO outbox_delivery_attempt_observation (
        event_id, delivery_generation, publication_attempt_id, observation_sequence,
        observation_type, claim_token_digest, producer_generation, destination_binding_revision
    )
    SELECT judged.event_id, judged.generation, judged.attempt_id,
           CASE WHEN judged.publication_attempt_count = 0 AND NOT $13::boolean THEN 1 ELSE (
               SELECT coalesce(max(earlier.observation_sequence), 0) + 1
                 FROM outbox_delivery_attempt_observation AS earlier
                WHERE earlier.event_id = judged.event_id
                  AND earlier.delivery_generation = judged.generation
           ) END,
           'ATTEMPT_ADMITTED', judged.token_digest, $10::text,
           judged.destination_binding_revision
      FROM judged
     WHERE NOT judged.spent
    RETURNING 1
), exhausted AS (
    UPDATE outbox_delivery AS d
       SET state = 'EXHAUSTED',
           next_attempt_at = NULL,
           terminal_at = clock_timestamp(),
           last_outcome_certainty = CASE WHEN EXISTS (
                   SELECT 1
                     FROM outbox_delivery_attempt_observation AS observed
                    WHERE observed.event_id = d.event_id
                      AND observed.delivery_generation = d.delivery_generation
                      AND observed.observation_type = 'OUTCOME_OBSERVED'
                      AND observed.acceptance_certainty = 'INDETERMINATE'
               ) THEN 'INDETERMINATE' ELSE d.last_outcome_certainty END,
           last_failure_class = $11::text,
           last_failure_stage = $12::text,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
      FROM judged
     WHERE d.ctid = judged.address
       AND judged.spent
    RETURNING judged.place
)
SELECT claimed.place, false AS spent,
       (extract(epoch FROM claimed.claim_until) * 1000000)::bigint AS claim_until,
       claimed.claim_count, claimed.publication_attempt_count,
       (SELECT count(*) FROM admitted) AS admitted
  FROM claimed
UNION ALL
SELECT exhausted.place, true, NULL, NULL, NULL, (SELECT count(*) FROM admitted)
  FROM exhausted
