-- Ends a delivery whose budget is spent, under the claim's own fence. One attempt of the generation
-- that ended INDETERMINATE, an abandoned one included, leaves the row INDETERMINATE. ?6 and ?7 are
-- the failure class and stage to report.
UPDATE outbox_delivery
SET state = 'EXHAUSTED',
    next_attempt_at = NULL,
    claim_token = NULL,
    claim_owner = NULL,
    claim_until = NULL,
    last_outcome_certainty = iif(
        EXISTS (
            SELECT 1
            FROM outbox_delivery_attempt_observation AS observed
            WHERE observed.event_id = outbox_delivery.event_id
                AND observed.delivery_generation = outbox_delivery.delivery_generation
                AND observed.observation_type = 'OUTCOME_OBSERVED'
                AND observed.acceptance_certainty = 'INDETERMINATE'
        ),
        'INDETERMINATE', last_outcome_certainty
    ),
    last_failure_class = ?6,
    last_failure_stage = ?7,
    terminal_at = clock.now,
    row_version = row_version + 1,
    updated_at = clock.now
FROM database_clock AS clock
WHERE event_id = ?1
    AND delivery_generation = ?2
    AND row_version = ?3
    AND authority_status = 'CURRENT'
    AND (state = 'READY' OR claimable_at <= clock.now)
    AND (clock.now + ?4 > automatic_attempt_deadline
        OR (state = 'CLAIMED' AND publication_attempt_count >= ?5))
