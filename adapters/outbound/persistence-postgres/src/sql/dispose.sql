-- Moves the locked CURRENT row as an operator asked, under the same guard as the pure transition,
-- and audits it. Leaving a lapsed claim leaves its attempt's outcome in doubt.
--
-- $1 event id, $2 generation, $3 row version, $4 state it is in, $5 new state, $6 whether a lapsed
-- claim is left, $7 the stage that its attempt is reported under, $8 disposition, $9 operator,
-- $10 reason code, $11 reason, $12 reference, $13 approval, $14 compensating event.
WITH moved AS (
    UPDATE outbox_delivery AS d
       SET state = $5::text,
           claim_token = NULL,
           claim_owner = NULL,
           claim_until = NULL,
           next_attempt_at = NULL,
           terminal_at = clock_timestamp(),
           last_outcome_certainty =
               CASE WHEN $6::boolean THEN 'INDETERMINATE' ELSE d.last_outcome_certainty END,
           last_failure_class =
               CASE WHEN $6::boolean THEN 'ATTEMPT_ABANDONED' ELSE d.last_failure_class END,
           last_failure_stage =
               CASE WHEN $6::boolean THEN $7::text ELSE d.last_failure_stage END,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
     WHERE d.event_id = $1::text
       AND d.delivery_generation = $2::bigint
       AND d.row_version = $3::bigint
       AND d.authority_status = 'CURRENT'
       AND d.state = $4::text
       AND CASE $5::text
           WHEN 'HOLD' THEN
               d.state IN ('READY', 'RETRY_WAIT', 'EXHAUSTED')
               OR (d.state = 'CLAIMED' AND d.claim_until <= clock_timestamp())
           WHEN 'SKIPPED' THEN d.state IN ('EXHAUSTED', 'HOLD')
           WHEN 'COMPENSATED' THEN d.state IN ('EXHAUSTED', 'HOLD')
           WHEN 'LEGACY_ACCEPTED_UNVERIFIED' THEN d.state = 'LEGACY_RECORDED_UNVERIFIED'
           ELSE false
       END
       AND (d.state = 'CLAIMED') = $6::boolean
    RETURNING d.event_id, d.delivery_generation, d.row_version
), audited AS (
    INSERT INTO outbox_disposition_audit (
        event_id, delivery_generation, expected_row_version, disposition, from_state, to_state,
        operator, reason_code, reason, reference, approval, compensating_event_id,
        partition_key_text, envelope_sha256, payload_schema_hash
    )
    SELECT moved.event_id, moved.delivery_generation, $3::bigint, $8::text, $4::text, $5::text,
           $9::text, $10::text, $11::text, $12::text, $13::text, $14::text,
           e.partition_key_text, e.envelope_sha256, e.payload_schema_hash
      FROM moved
      JOIN outbox_event AS e ON e.event_id = moved.event_id
    RETURNING event_id
)
SELECT moved.delivery_generation, moved.row_version
  FROM moved
  JOIN audited ON audited.event_id = moved.event_id
