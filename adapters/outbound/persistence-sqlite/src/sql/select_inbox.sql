-- Which document a consumer saw under an event id.
SELECT document_sha256
FROM inbox_consumption
WHERE consumer_id = ?1 AND effect_generation = 0 AND event_id = ?2
