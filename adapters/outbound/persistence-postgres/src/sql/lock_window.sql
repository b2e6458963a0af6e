-- Waits for each row of a batch, in the order asked, so that leases are compared after the wait.
--
-- $1 event ids, $2 generations.
SELECT count(*) AS locked
  FROM unnest($1::text[], $2::bigint[]) AS asked (event_id, generation)
 CROSS JOIN LATERAL (
    SELECT d.row_version
      FROM outbox_delivery AS d
     WHERE d.event_id = asked.event_id
       AND d.delivery_generation = asked.generation
       FOR UPDATE OF d
 ) AS d
