-- The valid-lease CAS of requirement 004 §18.6 for the attempt admitted under its token, and that
-- attempt's outcome in the journal. One attempt of the generation that ended INDETERMINATE leaves an
-- EXHAUSTED row INDETERMINATE. Only a recorded delivery says where the broker has the record.
--
-- $1 event id, $2 generation, $3 token, $4 owner, $5 new state, $6 retry delay in microseconds,
-- $7 certainty, $8 disposition, $9 failure class, $10 failure stage, $11 producer generation,
-- $12 record reference, $13 acknowledgement in epoch microseconds, $14 attempt id, $15 token
-- digest, $16 binding revision.
WITH moved AS (
    UPDATE outbox_delivery AS d
       SET state = $5::text,
           claim_token = NULL,
           claim_owner = NULL,
           claim_until = NULL,
           next_attempt_at = CASE WHEN $5::text = 'RETRY_WAIT'
               THEN clock_timestamp() + $6::bigint * interval '1 microsecond' END,
           delivery_recorded_at =
               CASE WHEN $5::text = 'DELIVERY_RECORDED' THEN clock_timestamp() END,
           terminal_at = CASE WHEN $5::text <> 'RETRY_WAIT' THEN clock_timestamp() END,
           last_outcome_certainty = CASE
               WHEN $5::text = 'EXHAUSTED' AND EXISTS (
                   SELECT 1
                     FROM outbox_delivery_attempt_observation AS observed
                    WHERE observed.event_id = d.event_id
                      AND observed.delivery_generation = d.delivery_generation
                      AND observed.observation_type = 'OUTCOME_OBSERVED'
                      AND observed.acceptance_certainty = 'INDETERMINATE'
               ) THEN 'INDETERMINATE' ELSE $7::text END,
           last_failure_class = coalesce($9::text, d.last_failure_class),
           last_failure_stage = coalesce($10::text, d.last_failure_stage),
           provider_generation = $11::text,
           provider_record_reference =
               CASE WHEN $5::text = 'DELIVERY_RECORDED' THEN $12::text END,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
     WHERE d.event_id = $1::text
       AND d.delivery_generation = $2::bigint
       AND d.authority_status = 'CURRENT'
       AND d.state = 'CLAIMED'
       AND d.claim_token = $3::bytea
       AND d.claim_owner = $4::text
       AND d.claim_until > clock_timestamp()
       AND EXISTS (
           SELECT 1
             FROM outbox_delivery_attempt_observation AS admitted
            WHERE admitted.event_id = d.event_id
              AND admitted.delivery_generation = d.delivery_generation
              AND admitted.publication_attempt_id = $14::text
              AND admitted.observation_type = 'ATTEMPT_ADMITTED'
              AND admitted.claim_token_digest = $15::bytea
       )
    RETURNING d.event_id, d.delivery_generation
), observed AS (
    INSERT INTO outbox_delivery_attempt_observation (
        event_id, delivery_generation, publication_attempt_id, observation_sequence,
        observation_type, claim_token_digest, producer_generation, destination_binding_revision,
        acceptance_certainty, retry_disposition, failure_class, failure_stage,
        provider_record_reference, acknowledged_at
    )
    SELECT moved.event_id, moved.delivery_generation, $14::text,
           (
               SELECT coalesce(max(earlier.observation_sequence), 0) + 1
                 FROM outbox_delivery_attempt_observation AS earlier
                WHERE earlier.event_id = moved.event_id
                  AND earlier.delivery_generation = moved.delivery_generation
           ),
           'OUTCOME_OBSERVED', $15::bytea, $11::text, $16::text,
           $7::text, $8::text, $9::text, $10::text,
           $12::text, timestamptz 'epoch' + $13::bigint * interval '1 microsecond'
      FROM moved
    RETURNING event_id
)
SELECT count(*) AS recorded
  FROM moved
  JOIN observed ON observed.event_id = moved.event_id
