-- Unresolved CURRENT rows, and the oldest of those that were looked at. The partial index holds
-- exactly these rows; at most $1 of them are read.
--
-- $1 rows to look at.
SELECT count(*) AS unresolved,
       (extract(epoch FROM min(seen.created_at)) * 1000000)::bigint AS oldest,
       pg_database_size(current_database()) AS store_bytes,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
  FROM (
      SELECT d.created_at
        FROM outbox_delivery AS d
       WHERE d.blocks_scope
       LIMIT $1::bigint
  ) AS seen
