-- The valid-lease token CAS (requirement 004 §18.6), for the attempt that was admitted under this
-- very token. ?7 is the new state, ?8 the wait before a retry. One attempt of the generation that
-- ended INDETERMINATE leaves an EXHAUSTED row INDETERMINATE.
UPDATE outbox_delivery
SET state = ?7,
    next_attempt_at = iif(?7 = 'RETRY_WAIT', clock.now + ?8, NULL),
    claim_token = NULL,
    claim_owner = NULL,
    claim_until = NULL,
    last_outcome_certainty = iif(
        ?7 = 'EXHAUSTED' AND EXISTS (
            SELECT 1
            FROM outbox_delivery_attempt_observation AS observed
            WHERE observed.event_id = ?1
                AND observed.delivery_generation = ?2
                AND observed.observation_type = 'OUTCOME_OBSERVED'
                AND observed.acceptance_certainty = 'INDETERMINATE'
        ),
        'INDETERMINATE', ?9
    ),
    last_failure_class = coalesce(?10, last_failure_class),
    last_failure_stage = coalesce(?11, last_failure_stage),
    provider_generation = ?12,
    provider_record_reference = ?13,
    delivery_recorded_at = iif(?7 = 'DELIVERY_RECORDED', clock.now, NULL),
    terminal_at = iif(?7 = 'RETRY_WAIT', NULL, clock.now),
    row_version = row_version + 1,
    updated_at = clock.now
FROM database_clock AS clock
WHERE event_id = ?1
    AND delivery_generation = ?2
    AND authority_status = 'CURRENT'
    AND state = 'CLAIMED'
    AND claim_token = ?3
    AND claim_owner = ?4
    AND claim_until > clock.now
    AND EXISTS (
        SELECT 1
        FROM outbox_delivery_attempt_observation AS admitted
        WHERE admitted.event_id = ?1
            AND admitted.delivery_generation = ?2
            AND admitted.publication_attempt_id = ?5
            AND admitted.observation_type = 'ATTEMPT_ADMITTED'
            AND admitted.claim_token_digest = ?6
    )
