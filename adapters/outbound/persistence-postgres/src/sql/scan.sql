-- Eligible rows of one claim lane after a place, without a lock: the head of each ordering scope,
-- by one index probe a scope, and events that wait for nobody. At most $8 rows are looked at on
-- each of the two ways, eligible or not; the row at which that bound ended a way is returned as
-- well, so that the next scan goes on from it. The limit counts eligible rows. Time, state and
-- fences are hints here; they are judged again under the row's lock.
--
-- A row that cannot go has no candidate, so its event is never looked up.
--
-- $1 lane, $2 key after which heads begin, $3 key, $4 sequence and $5 index after which events that
-- wait for nobody begin, $6 key before which heads end, $7 most eligible rows of each way, $8 most
-- rows looked at, $9…$13 what this process can send, $14 whether documents are wanted, $15 key before
-- which events that wait for nobody end.
WITH RECURSIVE head AS (
    (
        SELECT d.event_id, d.delivery_generation, d.row_version, d.state, d.partition_key_text,
               d.aggregate_sequence, d.aggregate_event_index,
               CASE WHEN d.ordering_required AND (
                   d.state = 'READY'
                   OR (d.state = 'RETRY_WAIT' AND d.next_attempt_at <= clock_timestamp())
                   OR (d.state = 'CLAIMED' AND d.claim_until <= clock_timestamp())
               ) THEN d.event_id END AS candidate,
               1::bigint AS looked
          FROM outbox_delivery AS d
         WHERE d.blocks_scope
           AND d.claim_lane = $1::smallint
           AND d.partition_key_text > $2::text
           AND d.partition_key_text < $6::text
         ORDER BY d.claim_lane, d.partition_key_text, d.aggregate_sequence,
                  d.aggregate_event_index
         LIMIT 1
    )
    UNION ALL
    SELECT following.*
      FROM head
     CROSS JOIN LATERAL (
        SELECT d.event_id, d.delivery_generation, d.row_version, d.state, d.partition_key_text,
               d.aggregate_sequence, d.aggregate_event_index,
               CASE WHEN d.ordering_required AND (
                   d.state = 'READY'
                   OR (d.state = 'RETRY_WAIT' AND d.next_attempt_at <= clock_timestamp())
                   OR (d.state = 'CLAIMED' AND d.claim_until <= clock_timestamp())
               ) THEN d.event_id END AS candidate,
               head.looked + 1
          FROM outbox_delivery AS d
         WHERE d.blocks_scope
           AND d.claim_lane = $1::smallint
           AND d.partition_key_text > head.partition_key_text
           AND d.partition_key_text < $6::text
         ORDER BY d.claim_lane, d.partition_key_text, d.aggregate_sequence,
                  d.aggregate_event_index
         LIMIT 1
     ) AS following
     WHERE head.looked < $8::bigint
), tolerant AS (
    SELECT d.*, row_number() OVER () AS looked
      FROM (
        SELECT d.event_id, d.delivery_generation, d.row_version, d.state, d.partition_key_text,
               d.aggregate_sequence, d.aggregate_event_index,
               CASE WHEN d.state = 'READY'
                   OR (d.state = 'RETRY_WAIT' AND d.next_attempt_at <= clock_timestamp())
                   OR (d.state = 'CLAIMED' AND d.claim_until <= clock_timestamp())
               THEN d.event_id END AS candidate
          FROM outbox_delivery AS d
         WHERE d.claimable
           AND NOT d.ordering_required
           AND d.claim_lane = $1::smallint
           AND d.partition_key_text >= $3::text
           AND (d.partition_key_text, d.aggregate_sequence, d.aggregate_event_index)
               > ($3::text, $4::bigint, $5::integer)
           AND d.partition_key_text < $15::text
         ORDER BY d.claim_lane, d.partition_key_text, d.aggregate_sequence,
                  d.aggregate_event_index
         LIMIT $8::bigint
      ) AS d
), gate AS MATERIALIZED (
    SELECT everything, destinations, scopes, events
      FROM outbox_claim_gate
)
(
    SELECT 'HEAD' AS way, head.event_id AS found_event_id, head.delivery_generation,
           head.row_version, head.state, head.partition_key_text AS found_key,
           head.aggregate_sequence AS found_sequence, head.aggregate_event_index AS found_index,
           head.looked >= $8::bigint AS bounded, e.*
      FROM head
     CROSS JOIN gate
      LEFT JOIN LATERAL (
        SELECT e.event_id, e.contract_id, e.payload_version, e.logical_destination_id,
               e.destination_binding_revision, e.aggregate_type, e.aggregate_id,
               e.aggregate_sequence, e.aggregate_event_index, e.partition_key_text,
               (extract(epoch FROM e.occurred_at) * 1000)::bigint AS occurred_at,
               (extract(epoch FROM e.created_at) * 1000000)::bigint AS created_at,
               e.tenant_scope, e.correlation_id, e.causation_id, e.traceparent, e.tracestate,
               CASE WHEN $14::boolean THEN e.envelope_bytes ELSE '' END AS envelope_bytes,
               e.envelope_sha256, e.envelope_schema_hash, e.payload_schema_hash,
               e.schema_set_hash, e.contract_catalog_revision, e.publication_epoch,
               e.dispatch_authority, e.transaction_resource_id, e.ordering_required
          FROM outbox_event AS e
          JOIN unnest($9::text[], $10::integer[], $11::bytea[], $12::text[], $13::text[])
               AS known (contract_id, payload_version, payload_schema, destination, binding)
            ON known.contract_id = e.contract_id
           AND known.payload_version = e.payload_version
           AND known.payload_schema = e.payload_schema_hash
           AND known.destination = e.logical_destination_id
           AND known.binding = e.destination_binding_revision
         WHERE e.event_id = head.candidate
           AND e.dispatch_authority = 'POLLING_V2'
           AND NOT gate.everything
           AND e.logical_destination_id <> ALL (gate.destinations)
           AND e.partition_key_text <> ALL (gate.scopes)
           AND e.event_id <> ALL (gate.events)
         LIMIT 1
      ) AS e ON true
     WHERE e.event_id IS NOT NULL
        OR head.looked >= $8::bigint
     LIMIT $7::bigint
)
UNION ALL
(
    SELECT 'TOLERANT', tolerant.event_id, tolerant.delivery_generation, tolerant.row_version,
           tolerant.state, tolerant.partition_key_text, tolerant.aggregate_sequence,
           tolerant.aggregate_event_index, tolerant.looked >= $8::bigint, e.*
      FROM tolerant
     CROSS JOIN gate
      LEFT JOIN LATERAL (
        SELECT e.event_id, e.contract_id, e.payload_version, e.logical_destination_id,
               e.destination_binding_revision, e.aggregate_type, e.aggregate_id,
               e.aggregate_sequence, e.aggregate_event_index, e.partition_key_text,
               (extract(epoch FROM e.occurred_at) * 1000)::bigint AS occurred_at,
               (extract(epoch FROM e.created_at) * 1000000)::bigint AS created_at,
               e.tenant_scope, e.correlation_id, e.causation_id, e.traceparent, e.tracestate,
               CASE WHEN $14::boolean THEN e.envelope_bytes ELSE '' END AS envelope_bytes,
               e.envelope_sha256, e.envelope_schema_hash, e.payload_schema_hash,
               e.schema_set_hash, e.contract_catalog_revision, e.publication_epoch,
               e.dispatch_authority, e.transaction_resource_id, e.ordering_required
          FROM outbox_event AS e
          JOIN unnest($9::text[], $10::integer[], $11::bytea[], $12::text[], $13::text[])
               AS known (contract_id, payload_version, payload_schema, destination, binding)
            ON known.contract_id = e.contract_id
           AND known.payload_version = e.payload_version
           AND known.payload_schema = e.payload_schema_hash
           AND known.destination = e.logical_destination_id
           AND known.binding = e.destination_binding_revision
         WHERE e.event_id = tolerant.candidate
           AND e.dispatch_authority = 'POLLING_V2'
           AND NOT gate.everything
           AND e.logical_destination_id <> ALL (gate.destinations)
           AND e.partition_key_text <> ALL (gate.scopes)
           AND e.event_id <> ALL (gate.events)
         LIMIT 1
      ) AS e ON true
     WHERE e.event_id IS NOT NULL
        OR tolerant.looked >= $8::bigint
     LIMIT $7::bigint
)
