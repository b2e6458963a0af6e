-- Ends the locked head's automatic budget without a send and without an admission. Its certainty
-- is INDETERMINATE as soon as one attempt of the generation was.
--
-- $1 event id, $2 generation, $3 row version, $4 attempt budget in microseconds, $5 attempts
-- allowed, $6 failure class and $7 stage to report.
UPDATE outbox_delivery AS d
   SET state = 'EXHAUSTED',
       claim_token = NULL,
       claim_owner = NULL,
       claim_until = NULL,
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
       last_failure_class = $6::text,
       last_failure_stage = $7::text,
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
   AND (
       (d.state = 'CLAIMED' AND d.publication_attempt_count >= $5::bigint)
       OR clock_timestamp() + $4::bigint * interval '1 microsecond'
           > d.automatic_attempt_deadline
   )
