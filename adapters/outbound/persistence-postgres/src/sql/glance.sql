-- The youngest rows that might go, and of them the eligible ones of a share: whether work came in
-- while a long search was under way or at rest. No lock; state, time, gate and fences are hints here
-- and are judged again under the row's lock.
--
-- $1 least and $2 greatest partition of the share, $3 how many rows are looked at, $4 most eligible
-- rows, $5…$9 what this process can send, $10 whether documents are wanted.
WITH youngest AS MATERIALIZED (
    SELECT d.event_id, d.delivery_generation, d.row_version, d.state, d.partition_key_text,
           d.aggregate_sequence, d.aggregate_event_index, d.ordering_required, d.claim_lane,
           d.claim_partition, d.next_attempt_at, d.claim_until
      FROM outbox_delivery AS d
     WHERE d.claimable
     ORDER BY d.created_at DESC
     LIMIT $3::bigint
), gate AS MATERIALIZED (
    SELECT everything, destinations, scopes, events
      FROM outbox_claim_gate
)
SELECT CASE WHEN d.ordering_required THEN 'HEAD' ELSE 'TOLERANT' END AS way,
       d.event_id AS found_event_id, d.delivery_generation, d.row_version, d.state,
       d.partition_key_text AS found_key, d.aggregate_sequence AS found_sequence,
       d.aggregate_event_index AS found_index, d.claim_lane AS found_lane, e.*
  FROM youngest AS d
 CROSS JOIN gate
 CROSS JOIN LATERAL (
    SELECT e.event_id, e.contract_id, e.payload_version, e.logical_destination_id,
           e.destination_binding_revision, e.aggregate_type, e.aggregate_id,
           e.aggregate_sequence, e.aggregate_event_index, e.partition_key_text,
           (extract(epoch FROM e.occurred_at) * 1000)::bigint AS occurred_at,
           (extract(epoch FROM e.created_at) * 1000000)::bigint AS created_at,
           e.tenant_scope, e.correlation_id, e.causation_id, e.traceparent, e.tracestate,
           CASE WHEN $10::boolean THEN e.envelope_bytes ELSE '' END AS envelope_bytes,
           e.envelope_sha256, e.envelope_schema_hash, e.payload_schema_hash,
           e.schema_set_hash, e.contract_catalog_revision, e.publication_epoch,
           e.dispatch_authority, e.transaction_resource_id, e.ordering_required
      FROM outbox_event AS e
      JOIN unnest($5::text[], $6::integer[], $7::bytea[], $8::text[], $9::text[])
           AS known (contract_id, payload_version, payload_schema, destination, binding)
        ON known.contract_id = e.contract_id
       AND known.payload_version = e.payload_version
       AND known.payload_schema = e.payload_schema_hash
       AND known.destination = e.logical_destination_id
       AND known.binding = e.destination_binding_revision
     WHERE e.event_id = d.event_id
       AND e.dispatch_authority = 'POLLING_V2'
       AND NOT gate.everything
       AND e.logical_destination_id <> ALL (gate.destinations)
       AND e.partition_key_text <> ALL (gate.scopes)
       AND e.event_id <> ALL (gate.events)
     LIMIT 1
 ) AS e
 WHERE d.claim_partition BETWEEN $1::smallint AND $2::smallint
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
              AND earlier.claim_lane = d.claim_lane
              AND earlier.partition_key_text = d.partition_key_text
              AND (earlier.aggregate_sequence, earlier.aggregate_event_index)
                  < (d.aggregate_sequence, d.aggregate_event_index)
           OFFSET 0
       )
   )
 LIMIT $4::bigint
