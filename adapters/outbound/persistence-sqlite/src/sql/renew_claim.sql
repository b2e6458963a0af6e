-- The valid-lease token CAS (requirement 004 §18.6), for the attempt that was admitted under this
-- very token: the lease begins anew, everything else stays.
UPDATE outbox_delivery
SET claim_until = clock.now + ?5,
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
            AND admitted.publication_attempt_id = ?6
            AND admitted.observation_type = 'ATTEMPT_ADMITTED'
            AND admitted.claim_token_digest = ?7
    )
RETURNING claim_until
