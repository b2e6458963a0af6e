-- What became of one admitted attempt.
SELECT
    delivery.event_id,
    delivery.delivery_generation,
    delivery.state,
    delivery.claim_owner,
    delivery.claim_until,
    delivery.claim_count,
    delivery.publication_attempt_count,
    delivery.state = 'CLAIMED' AND delivery.claim_token = ?3 AND delivery.claim_until > clock.now
        AS held,
    outcome.observation_type IS NOT NULL AS closed,
    coalesce(outcome.failure_class = 'ATTEMPT_ABANDONED', 0) AS abandoned
FROM outbox_delivery_attempt_observation AS admitted
CROSS JOIN database_clock AS clock
JOIN outbox_delivery AS delivery
    ON delivery.event_id = admitted.event_id
    AND delivery.delivery_generation = admitted.delivery_generation
LEFT JOIN outbox_delivery_attempt_observation AS outcome
    ON outcome.event_id = admitted.event_id
    AND outcome.delivery_generation = admitted.delivery_generation
    AND outcome.publication_attempt_id = admitted.publication_attempt_id
    AND outcome.observation_type = 'OUTCOME_OBSERVED'
WHERE admitted.publication_attempt_id = ?1
    AND admitted.claim_token_digest = ?2
    AND admitted.observation_type = 'ATTEMPT_ADMITTED'
