-- Waits for a generation's row, so that the lease is compared after the wait and not before it.
--
-- $1 event id, $2 generation.
SELECT d.row_version
  FROM outbox_delivery AS d
 WHERE d.event_id = $1::text
   AND d.delivery_generation = $2::bigint
   FOR UPDATE
