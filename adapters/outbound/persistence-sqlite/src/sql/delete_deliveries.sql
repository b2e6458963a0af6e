-- Every generation of an event that is removed.
DELETE FROM outbox_delivery WHERE event_id = ?1
