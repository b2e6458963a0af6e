-- The first sight of an event of a tenant scope by a consumer; nothing when it was seen before.
INSERT INTO inbox_consumption (
    consumer_id, tenant_scope, event_id, contract_id, payload_version, document_sha256, applied_at,
    created_at
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, clock.now, clock.now
FROM database_clock AS clock
WHERE true
ON CONFLICT (consumer_id, effect_generation, tenant_scope, event_id) DO NOTHING
