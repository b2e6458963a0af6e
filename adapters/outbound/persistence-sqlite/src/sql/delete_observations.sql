-- The attempt journal of an event that is removed.
DELETE FROM outbox_delivery_attempt_observation WHERE event_id = ?1
