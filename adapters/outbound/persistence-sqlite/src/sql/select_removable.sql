-- Events that every condition of requirement 004 §19.6 lets go. ?1 is the audit retention, ?2 the
-- replay horizon, ?3 the limit. An event that an audit row of another names stays with that row.
SELECT event.event_id
FROM outbox_event AS event
JOIN outbox_delivery AS delivery
    ON delivery.event_id = event.event_id AND delivery.authority_status = 'CURRENT'
CROSS JOIN database_clock AS clock
WHERE delivery.state IN
        ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    AND delivery.terminal_at + ?1 <= clock.now
    AND event.created_at + ?2 <= clock.now
    AND NOT EXISTS (SELECT 1 FROM outbox_legal_hold AS hold WHERE hold.event_id = event.event_id)
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_disposition_audit AS audit
        WHERE audit.compensating_event_id = event.event_id
    )
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_delivery_attempt_observation AS admitted
        WHERE admitted.event_id = event.event_id
            AND admitted.observation_type = 'ATTEMPT_ADMITTED'
            AND NOT EXISTS (
                SELECT 1
                FROM outbox_delivery_attempt_observation AS outcome
                WHERE outcome.event_id = admitted.event_id
                    AND outcome.delivery_generation = admitted.delivery_generation
                    AND outcome.publication_attempt_id = admitted.publication_attempt_id
                    AND outcome.observation_type = 'OUTCOME_OBSERVED'
            )
    )
ORDER BY event.event_id
LIMIT ?3
