-- The durable marker before a send.
INSERT INTO outbox_delivery_attempt_observation (
    event_id, delivery_generation, publication_attempt_id, observation_sequence, observation_type,
    claim_token_digest, producer_generation, destination_binding_revision, observed_at
)
SELECT
    delivery.event_id, delivery.delivery_generation, ?3,
    (
        SELECT coalesce(max(observation_sequence), 0) + 1
        FROM outbox_delivery_attempt_observation
        WHERE event_id = ?1 AND delivery_generation = ?2
    ),
    'ATTEMPT_ADMITTED', ?4, ?5, delivery.destination_binding_revision, clock.now
FROM outbox_delivery AS delivery
CROSS JOIN database_clock AS clock
WHERE delivery.event_id = ?1 AND delivery.delivery_generation = ?2
