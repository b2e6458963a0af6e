-- Locks the deliveries of a batch of late acknowledgements in key order, so that their journals are
-- written by nobody else meanwhile.
--
-- $1 event ids, $2 generations.
SELECT d.event_id, d.delivery_generation
  FROM outbox_delivery AS d
 WHERE (d.event_id, d.delivery_generation) IN (
           SELECT given.event_id, given.generation
             FROM unnest($1::text[], $2::bigint[]) AS given (event_id, generation)
       )
 ORDER BY d.event_id, d.delivery_generation
   FOR NO KEY UPDATE
