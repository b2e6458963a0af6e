-- Locks the events, in key order, skipping what others hold: a legal hold that is being placed, or
-- an audit that is about to name one, holds its event through its foreign key.
--
-- $1 event ids.
SELECT e.event_id
  FROM outbox_event AS e
 WHERE e.event_id = ANY ($1::text[])
 ORDER BY e.event_id
   FOR UPDATE SKIP LOCKED
