-- An operator's transition of the row that was decided upon. ?5: it was a lapsed claim.
UPDATE outbox_delivery
SET state = ?4,
    claim_token = NULL,
    claim_owner = NULL,
    claim_until = NULL,
    next_attempt_at = NULL,
    terminal_at = clock.now,
    last_outcome_certainty = iif(?5, 'INDETERMINATE', last_outcome_certainty),
    last_failure_class = iif(?5, 'ATTEMPT_ABANDONED', last_failure_class),
    last_failure_stage = iif(?5, 'DEADLINE', last_failure_stage),
    row_version = row_version + 1,
    updated_at = clock.now
FROM database_clock AS clock
WHERE event_id = ?1
    AND delivery_generation = ?2
    AND row_version = ?3
    AND authority_status = 'CURRENT'
    AND (state <> 'CLAIMED' OR claim_until <= clock.now)
RETURNING delivery_generation, row_version
