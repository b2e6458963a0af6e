-- One event; without its document unless ?2 asks for it.
SELECT
    event_id, envelope_version, contract_id, payload_version, logical_destination_id,
    destination_binding_revision, aggregate_type, aggregate_id, aggregate_sequence,
    aggregate_event_index, partition_key_text, ordering_required, occurred_at, created_at,
    tenant_scope, correlation_id, causation_id, traceparent, tracestate, content_type,
    envelope_sha256, envelope_schema_hash, payload_schema_hash, schema_set_hash,
    contract_catalog_revision, publication_epoch, dispatch_authority, transaction_resource_id,
    iif(?2, envelope_bytes, x'') AS envelope_bytes
FROM outbox_event
WHERE event_id = ?1
