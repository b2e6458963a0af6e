-- The event itself, last.
DELETE FROM outbox_event WHERE event_id = ?1
