-- The outcome, beside the transition that it explains.
INSERT INTO outbox_delivery_attempt_observation (
    event_id, delivery_generation, publication_attempt_id, observation_sequence, observation_type,
    claim_token_digest, producer_generation, destination_binding_revision, observed_at,
    acceptance_certainty, retry_disposition, failure_class, failure_stage,
    provider_record_reference
)
SELECT
    ?1, ?2, ?3,
    (
        SELECT max(observation_sequence) + 1
        FROM outbox_delivery_attempt_observation
        WHERE event_id = ?1 AND delivery_generation = ?2
    ),
    'OUTCOME_OBSERVED', ?4, ?5, ?6, clock.now, ?7, ?8, ?9, ?10, ?11
FROM database_clock AS clock
