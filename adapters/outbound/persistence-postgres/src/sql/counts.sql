-- Everything that is counted, from one snapshot because it is one statement.
WITH current_delivery AS (
    SELECT state, count(*) AS deliveries,
           count(*) FILTER (WHERE publication_attempt_count > 1) AS retried
      FROM outbox_delivery
     WHERE authority_status = 'CURRENT'
     GROUP BY state
)
SELECT 'events' AS what, NULL::text AS state, count(*) AS number
  FROM outbox_event
UNION ALL
SELECT 'without_delivery', NULL, count(*)
  FROM outbox_event AS e
 WHERE NOT EXISTS (SELECT 1 FROM outbox_delivery AS d WHERE d.event_id = e.event_id)
UNION ALL
SELECT 'retried', NULL, coalesce(sum(retried), 0)::bigint
  FROM current_delivery
UNION ALL
SELECT 'state', state, deliveries
  FROM current_delivery
