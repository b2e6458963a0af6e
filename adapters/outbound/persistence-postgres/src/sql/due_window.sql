-- The next events in key order, and which of them look old and resolved enough to go; nothing is
-- locked yet. OFFSET 0 keeps each question one probe an event, whatever the planner believes.
--
-- $1 the event id to go on after, or NULL, $2 how many to look at, $3 audit retention and $4 replay
-- horizon in microseconds.
WITH span AS MATERIALIZED (
    SELECT e.event_id, e.created_at, e.dispatch_authority
      FROM outbox_event AS e
     WHERE e.event_id > coalesce($1::text, '')
     ORDER BY e.event_id
     LIMIT $2::bigint
), looked AS (
    SELECT span.event_id,
           span.dispatch_authority <> 'CDC'
           AND span.created_at + $4::bigint * interval '1 microsecond' <= clock_timestamp()
           AND EXISTS (
               SELECT 1
                 FROM outbox_delivery AS d
                WHERE d.event_id = span.event_id
                  AND d.authority_status = 'CURRENT'
                  AND d.state IN (
                      'DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED'
                  )
                  AND d.terminal_at + $3::bigint * interval '1 microsecond' <= clock_timestamp()
               OFFSET 0
           ) AS due
      FROM span
)
SELECT count(*) AS looked_at, max(looked.event_id) AS last_event_id,
       coalesce(array_agg(looked.event_id::text ORDER BY looked.event_id)
           FILTER (WHERE looked.due), '{}') AS due
  FROM looked
