-- Waits for the generation that an operator saw. What it is now is read by the next statement, whose
-- snapshot and clock are later than the wait.
--
-- $1 event id, $2 generation.
SELECT d.delivery_generation
  FROM outbox_delivery AS d
 WHERE d.event_id = $1::text
   AND d.delivery_generation = $2::bigint
   FOR UPDATE
