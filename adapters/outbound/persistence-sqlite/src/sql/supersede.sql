-- The old generation hands its authority over.
UPDATE outbox_delivery
SET authority_status = 'SUPERSEDED',
    superseded_by_generation = ?2 + 1,
    row_version = row_version + 1,
    updated_at = clock.now
FROM database_clock AS clock
WHERE event_id = ?1
    AND delivery_generation = ?2
    AND row_version = ?3
    AND authority_status = 'CURRENT'
    AND state IN ('EXHAUSTED', 'HOLD')
