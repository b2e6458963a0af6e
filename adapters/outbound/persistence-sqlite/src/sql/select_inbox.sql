-- Which document a consumer saw under an event id of a tenant scope.
SELECT document_sha256
FROM inbox_consumption
WHERE consumer_id = ?1 AND effect_generation = 0 AND tenant_scope = ?2 AND event_id = ?3
