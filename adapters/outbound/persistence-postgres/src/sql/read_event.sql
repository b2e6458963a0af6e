-- The immutable event of a delivery; without its document, and without reading it, unless $2 asks.
--
-- $1 event id, $2 whether the document is wanted.
SELECT e.event_id, e.contract_id, e.payload_version, e.logical_destination_id,
       e.destination_binding_revision, e.aggregate_type, e.aggregate_id, e.aggregate_sequence,
       e.aggregate_event_index, e.partition_key_text,
       (extract(epoch FROM e.occurred_at) * 1000)::bigint AS occurred_at,
       (extract(epoch FROM e.created_at) * 1000000)::bigint AS created_at,
       e.tenant_scope, e.correlation_id, e.causation_id, e.traceparent, e.tracestate,
       CASE WHEN $2::boolean THEN e.envelope_bytes ELSE '' END AS envelope_bytes,
       e.envelope_sha256, e.envelope_schema_hash, e.payload_schema_hash,
       e.schema_set_hash, e.contract_catalog_revision, e.publication_epoch, e.dispatch_authority,
       e.transaction_resource_id, e.ordering_required
  FROM outbox_event AS e
 WHERE e.event_id = $1::text
