-- Takes the locked head and journals the attempt, under the same guard as the pure transition.
--
-- $1 event id, $2 generation, $3 row version, $4 token, $5 owner, $6 lease in microseconds,
-- $7 attempt budget in microseconds, $8 attempts allowed, $9 attempt id, $10 producer generation,
-- $11 token digest, $12 whether a lapsed claim was abandoned, $13 the stage it is reported under.
WITH claimed AS (
    UPDATE outbox_delivery AS d
       SET state = 'CLAIMED',
           claim_token = $4::bytea,
           claim_owner = $5::text,
           claim_until = clock_timestamp() + $6::bigint * interval '1 microsecond',
           claim_count = d.claim_count + 1,
           publication_attempt_count = d.publication_attempt_count + 1,
           first_attempt_at = coalesce(d.first_attempt_at, clock_timestamp()),
           next_attempt_at = NULL,
           last_outcome_certainty =
               CASE WHEN $12::boolean THEN 'INDETERMINATE' ELSE d.last_outcome_certainty END,
           last_failure_class =
               CASE WHEN $12::boolean THEN 'ATTEMPT_ABANDONED' ELSE d.last_failure_class END,
           last_failure_stage =
               CASE WHEN $12::boolean THEN $13::text ELSE d.last_failure_stage END,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
     WHERE d.event_id = $1::text
       AND d.delivery_generation = $2::bigint
       AND d.row_version = $3::bigint
       AND d.authority_status = 'CURRENT'
       AND (
           d.state = 'READY'
           OR (d.state = 'RETRY_WAIT' AND d.next_attempt_at <= clock_timestamp())
           OR (d.state = 'CLAIMED' AND d.claim_until <= clock_timestamp())
       )
       AND (d.state = 'CLAIMED') = $12::boolean
       AND (d.state <> 'CLAIMED' OR d.publication_attempt_count < $8::bigint)
       AND clock_timestamp() + $7::bigint * interval '1 microsecond'
           <= d.automatic_attempt_deadline
    RETURNING d.event_id, d.delivery_generation, d.destination_binding_revision, d.claim_until,
              d.claim_count, d.publication_attempt_count
), admitted AS (
    INSERT INTO outbox_delivery_attempt_observation (
        event_id, delivery_generation, publication_attempt_id, observation_sequence,
        observation_type, claim_token_digest, producer_generation, destination_binding_revision
    )
    SELECT claimed.event_id, claimed.delivery_generation, $9::text,
           (
               SELECT coalesce(max(earlier.observation_sequence), 0) + 1
                 FROM outbox_delivery_attempt_observation AS earlier
                WHERE earlier.event_id = claimed.event_id
                  AND earlier.delivery_generation = claimed.delivery_generation
           ),
           'ATTEMPT_ADMITTED', $11::bytea, $10::text, claimed.destination_binding_revision
      FROM claimed
    RETURNING event_id
)
SELECT (extract(epoch FROM claimed.claim_until) * 1000000)::bigint AS claim_until,
       claimed.claim_count, claimed.publication_attempt_count
  FROM claimed
  JOIN admitted ON admitted.event_id = claimed.event_id
