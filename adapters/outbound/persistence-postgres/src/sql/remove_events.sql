-- The chosen events, of which nothing else is left. The table's guard judges each row again.
--
-- $1 event ids.
DELETE FROM outbox_event WHERE event_id = ANY ($1::text[])
