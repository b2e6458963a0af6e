-- Eligible heads after a place in (created_at, event_id), oldest first, without a lock. The limit
-- counts eligible heads, not the rows looked at. Time is a hint here; it is judged again under the
-- row's lock.
--
-- OFFSET 0 keeps the two questions as one index probe a row: as joins, the planner may read a
-- whole table for them.
--
-- $1 created_at in epoch microseconds, $2 event id, $3…$7 what this process can send, $8 limit.
SELECT d.event_id, d.delivery_generation, d.row_version,
       (extract(epoch FROM d.created_at) * 1000000)::bigint AS created_at
  FROM outbox_delivery AS d
 WHERE d.claimable
   AND (d.created_at, d.event_id)
       > (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2::text)
   AND (
       d.state = 'READY'
       OR (d.state = 'RETRY_WAIT' AND d.next_attempt_at <= clock_timestamp())
       OR (d.state = 'CLAIMED' AND d.claim_until <= clock_timestamp())
   )
   AND (
       NOT d.ordering_required
       OR NOT EXISTS (
           SELECT 1
             FROM outbox_delivery AS earlier
            WHERE earlier.blocks_scope
              AND earlier.partition_key_text = d.partition_key_text
              AND (earlier.aggregate_sequence, earlier.aggregate_event_index)
                  < (d.aggregate_sequence, d.aggregate_event_index)
           OFFSET 0
       )
   )
   AND EXISTS (
       SELECT 1
         FROM outbox_event AS e
         JOIN unnest($3::text[], $4::integer[], $5::bytea[], $6::text[], $7::text[])
              AS known (contract_id, payload_version, payload_schema, destination, binding)
           ON known.contract_id = e.contract_id
          AND known.payload_version = e.payload_version
          AND known.payload_schema = e.payload_schema_hash
          AND known.destination = e.logical_destination_id
          AND known.binding = e.destination_binding_revision
        WHERE e.event_id = d.event_id
          AND e.dispatch_authority = 'POLLING_V2'
       OFFSET 0
   )
 ORDER BY d.created_at, d.event_id
 LIMIT $8::bigint
