-- Claims the candidate under the fence of its row version, judged again by the database clock. A
-- lapsed claim leaves an INDETERMINATE outcome behind.
UPDATE outbox_delivery
SET state = 'CLAIMED',
    claim_count = claim_count + 1,
    publication_attempt_count = publication_attempt_count + 1,
    first_attempt_at = coalesce(first_attempt_at, clock.now),
    next_attempt_at = NULL,
    claim_token = ?4,
    claim_owner = ?5,
    claim_until = clock.now + ?6,
    last_outcome_certainty = iif(state = 'CLAIMED', 'INDETERMINATE', last_outcome_certainty),
    last_failure_class = iif(state = 'CLAIMED', 'ATTEMPT_ABANDONED', last_failure_class),
    last_failure_stage = iif(state = 'CLAIMED', 'DEADLINE', last_failure_stage),
    row_version = row_version + 1,
    updated_at = clock.now
FROM database_clock AS clock
WHERE event_id = ?1
    AND delivery_generation = ?2
    AND row_version = ?3
    AND authority_status = 'CURRENT'
    AND (state = 'READY' OR claimable_at <= clock.now)
    AND (state <> 'CLAIMED' OR publication_attempt_count < ?8)
    AND clock.now + ?7 <= automatic_attempt_deadline
RETURNING claim_until, claim_count, publication_attempt_count
