-- Ends a legal hold.
DELETE FROM outbox_legal_hold WHERE event_id = ?1
