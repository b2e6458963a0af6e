-- Every generation of chosen events. The table's guard judges each row again.
--
-- $1 event ids.
DELETE FROM outbox_delivery WHERE event_id = ANY ($1::text[])
