-- The audit row of a disposition, written before the row moves, with copies of what it is about.
INSERT INTO outbox_disposition_audit (
    event_id, delivery_generation, next_generation, expected_row_version, disposition, from_state,
    to_state, operator, reason_code, reason, reference, approval, compensating_event_id,
    partition_key_text, envelope_sha256, payload_schema_hash, recorded_at
)
SELECT
    delivery.event_id, delivery.delivery_generation, ?3, ?4, ?5, delivery.state, ?6, ?7, ?8, ?9,
    ?10, ?11, ?12, delivery.partition_key_text, event.envelope_sha256, event.payload_schema_hash,
    clock.now
FROM outbox_delivery AS delivery
JOIN outbox_event AS event ON event.event_id = delivery.event_id
CROSS JOIN database_clock AS clock
WHERE delivery.event_id = ?1
    AND delivery.delivery_generation = ?2
    AND delivery.row_version = ?4
    AND delivery.authority_status = 'CURRENT'
