-- Activates a PREPARED epoch at the row version that was seen.
UPDATE outbox_publication_epoch
SET state = 'ACTIVE',
    activated_at = clock.now,
    activated_by = ?3,
    approved_by = ?4,
    row_version = row_version + 1
FROM database_clock AS clock
WHERE epoch_id = ?1 AND row_version = ?2 AND state = 'PREPARED'
