-- Resolved events after a place in (terminal_at, event_id), ?5 of them at most, and whether every
-- other condition of requirement 004 §19.6 lets each of them go. ?1 is the audit retention, ?2 the
-- replay horizon, ?3 and ?4 the place. An event that an audit row of another names stays with that
-- row.
SELECT
    delivery.event_id,
    delivery.terminal_at,
    event.created_at + ?2 <= (SELECT now FROM database_clock)
        AND NOT EXISTS (
            SELECT 1 FROM outbox_legal_hold AS hold WHERE hold.event_id = delivery.event_id
        )
        AND NOT EXISTS (
            SELECT 1
            FROM outbox_disposition_audit AS audit
            WHERE audit.compensating_event_id = delivery.event_id
        )
        AND NOT EXISTS (
            SELECT 1
            FROM outbox_delivery_attempt_observation AS admitted
            WHERE admitted.event_id = delivery.event_id
                AND admitted.observation_type = 'ATTEMPT_ADMITTED'
                AND NOT EXISTS (
                    SELECT 1
                    FROM outbox_delivery_attempt_observation AS outcome
                    WHERE outcome.event_id = admitted.event_id
                        AND outcome.delivery_generation = admitted.delivery_generation
                        AND outcome.publication_attempt_id = admitted.publication_attempt_id
                        AND outcome.observation_type = 'OUTCOME_OBSERVED'
                )
        ) AS removable
FROM outbox_delivery AS delivery
CROSS JOIN outbox_event AS event ON event.event_id = delivery.event_id
WHERE delivery.authority_status = 'CURRENT'
    AND delivery.state IN
        ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    AND (delivery.terminal_at, delivery.event_id) > (?3, ?4)
    AND delivery.terminal_at <= (SELECT now FROM database_clock) - ?1
ORDER BY delivery.terminal_at, delivery.event_id
LIMIT ?5
