-- A page of CURRENT deliveries in the byte order of their event ids.
SELECT
    delivery.event_id, event.contract_id, event.envelope_sha256, delivery.delivery_generation,
    delivery.state, delivery.claim_count, delivery.publication_attempt_count,
    delivery.last_outcome_certainty, delivery.last_failure_class,
    delivery.provider_record_reference
FROM outbox_delivery AS delivery
JOIN outbox_event AS event ON event.event_id = delivery.event_id
WHERE delivery.authority_status = 'CURRENT' AND delivery.event_id > ?1
ORDER BY delivery.event_id
LIMIT ?2
