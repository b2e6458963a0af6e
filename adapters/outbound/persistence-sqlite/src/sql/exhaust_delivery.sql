-- Ends a delivery whose budget is spent, under the claim's own fence. An attempt that was
-- abandoned, now or earlier, may have been sent.
UPDATE outbox_delivery
SET state = 'EXHAUSTED',
    next_attempt_at = NULL,
    claim_token = NULL,
    claim_owner = NULL,
    claim_until = NULL,
    last_outcome_certainty = iif(
        EXISTS (
            SELECT 1
            FROM outbox_delivery_attempt_observation AS abandoned
            WHERE abandoned.event_id = outbox_delivery.event_id
                AND abandoned.delivery_generation = outbox_delivery.delivery_generation
                AND abandoned.observation_type = 'OUTCOME_OBSERVED'
                AND abandoned.failure_class = 'ATTEMPT_ABANDONED'
        ),
        'INDETERMINATE', last_outcome_certainty
    ),
    last_failure_class = iif(state = 'CLAIMED', 'ATTEMPT_ABANDONED', last_failure_class),
    last_failure_stage = iif(state = 'CLAIMED', 'DEADLINE', last_failure_stage),
    terminal_at = clock.now,
    row_version = row_version + 1,
    updated_at = clock.now
FROM database_clock AS clock
WHERE event_id = ?1
    AND delivery_generation = ?2
    AND row_version = ?3
    AND authority_status = 'CURRENT'
    AND claimable_at <= clock.now
    AND (clock.now + ?4 > automatic_attempt_deadline
        OR (state = 'CLAIMED' AND publication_attempt_count >= ?5))
