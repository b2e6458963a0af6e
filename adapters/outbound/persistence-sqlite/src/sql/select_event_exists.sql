-- Whether an event is in this outbox.
SELECT EXISTS (SELECT 1 FROM outbox_event WHERE event_id = ?1)
