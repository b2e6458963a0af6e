-- The audit of an event that is removed.
DELETE FROM outbox_disposition_audit WHERE event_id = ?1
