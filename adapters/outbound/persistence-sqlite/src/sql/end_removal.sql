-- The permit ends with the removal.
DELETE FROM outbox_retention_permit WHERE event_id = ?1
