-- Copies epoch, authority and resource from the store in the insert itself; without an ACTIVE
-- epoch nothing is inserted.
INSERT INTO outbox_event (
    event_id, envelope_version, contract_id, payload_version, logical_destination_id,
    destination_binding_revision, aggregate_type, aggregate_id, aggregate_sequence,
    aggregate_event_index, partition_key_text, ordering_required, occurred_at, created_at,
    tenant_scope, correlation_id, causation_id, traceparent, tracestate, content_type,
    envelope_sha256, envelope_schema_hash, payload_schema_hash, schema_set_hash,
    contract_catalog_revision, publication_epoch, dispatch_authority, transaction_resource_id,
    envelope_bytes
)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, clock.now, ?14, ?15, ?16, ?17, ?18,
    ?19, ?20, ?21, ?22, ?23, ?24, epoch.epoch_id, epoch.authority, resource.resource_id, ?25
FROM database_clock AS clock
JOIN transaction_resource AS resource
JOIN outbox_publication_epoch AS epoch ON epoch.state = 'ACTIVE'
RETURNING publication_epoch, dispatch_authority, transaction_resource_id
