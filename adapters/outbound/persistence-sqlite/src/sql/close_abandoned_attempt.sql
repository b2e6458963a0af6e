-- Closes the attempt that a vanished worker left open.
INSERT INTO outbox_delivery_attempt_observation (
    event_id, delivery_generation, publication_attempt_id, observation_sequence, observation_type,
    claim_token_digest, producer_generation, destination_binding_revision, observed_at,
    acceptance_certainty, retry_disposition, failure_class, failure_stage
)
SELECT
    admitted.event_id, admitted.delivery_generation, admitted.publication_attempt_id,
    (
        SELECT max(observation_sequence) + 1
        FROM outbox_delivery_attempt_observation
        WHERE event_id = ?1 AND delivery_generation = ?2
    ),
    'OUTCOME_OBSERVED', admitted.claim_token_digest, admitted.producer_generation,
    admitted.destination_binding_revision, clock.now, 'INDETERMINATE', 'RETRY_WITHIN_BUDGET',
    'ATTEMPT_ABANDONED', 'DEADLINE'
FROM outbox_delivery_attempt_observation AS admitted
CROSS JOIN database_clock AS clock
WHERE admitted.event_id = ?1
    AND admitted.delivery_generation = ?2
    AND admitted.observation_type = 'ATTEMPT_ADMITTED'
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_delivery_attempt_observation AS outcome
        WHERE outcome.event_id = admitted.event_id
            AND outcome.delivery_generation = admitted.delivery_generation
            AND outcome.publication_attempt_id = admitted.publication_attempt_id
            AND outcome.observation_type = 'OUTCOME_OBSERVED'
    )
