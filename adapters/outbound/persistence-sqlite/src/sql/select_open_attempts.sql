-- The attempts of a generation that have no outcome.
SELECT count(*)
FROM outbox_delivery_attempt_observation AS admitted
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
