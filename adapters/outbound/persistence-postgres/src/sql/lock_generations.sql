-- Locks every generation of the events, in key order, skipping what others hold.
--
-- $1 event ids.
SELECT d.event_id
  FROM outbox_delivery AS d
 WHERE d.event_id = ANY ($1::text[])
 ORDER BY d.event_id, d.delivery_generation
   FOR UPDATE SKIP LOCKED
