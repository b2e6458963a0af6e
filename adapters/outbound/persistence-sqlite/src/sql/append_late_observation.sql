-- A late acknowledgement under its own attempt, once; nothing when that attempt was never admitted
-- under this token.
INSERT INTO outbox_delivery_attempt_observation (
    event_id, delivery_generation, publication_attempt_id, observation_sequence, observation_type,
    claim_token_digest, producer_generation, destination_binding_revision, observed_at,
    acceptance_certainty, retry_disposition, provider_record_reference
)
SELECT
    admitted.event_id, admitted.delivery_generation, ?3,
    (
        SELECT coalesce(max(observation_sequence), 0) + 1
        FROM outbox_delivery_attempt_observation
        WHERE event_id = ?1 AND delivery_generation = ?2
    ),
    'LATE_ACK_OBSERVED', ?4, ?5, ?6, ?7, ?9, ?10, ?8
FROM outbox_delivery_attempt_observation AS admitted
WHERE admitted.event_id = ?1
    AND admitted.delivery_generation = ?2
    AND admitted.publication_attempt_id = ?3
    AND admitted.observation_type = 'ATTEMPT_ADMITTED'
    AND admitted.claim_token_digest = ?4
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_delivery_attempt_observation AS observed
        WHERE observed.event_id = ?1
            AND observed.delivery_generation = ?2
            AND observed.publication_attempt_id = ?3
            AND observed.observation_type = 'LATE_ACK_OBSERVED'
    )
