-- The CURRENT generation of an event, and the time.
--
-- $1 event id.
SELECT d.event_id, d.delivery_generation, d.row_version, d.state, d.claim_token, d.claim_owner,
       (extract(epoch FROM d.claim_until) * 1000000)::bigint AS claim_until,
       (extract(epoch FROM d.next_attempt_at) * 1000000)::bigint AS next_attempt_at,
       e.dispatch_authority,
       (extract(epoch FROM e.created_at) * 1000000)::bigint AS event_created_at,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
  FROM outbox_delivery AS d
  JOIN outbox_event AS e ON e.event_id = d.event_id
 WHERE d.event_id = $1::text
   AND d.authority_status = 'CURRENT'
