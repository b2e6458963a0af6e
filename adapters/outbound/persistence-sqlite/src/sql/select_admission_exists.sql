-- Whether an attempt was admitted under this token.
SELECT EXISTS (
    SELECT 1
    FROM outbox_delivery_attempt_observation AS admitted
    WHERE admitted.event_id = ?1
        AND admitted.delivery_generation = ?2
        AND admitted.publication_attempt_id = ?3
        AND admitted.observation_type = 'ATTEMPT_ADMITTED'
        AND admitted.claim_token_digest = ?4
)
