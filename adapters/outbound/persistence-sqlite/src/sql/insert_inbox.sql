-- The first sight of an event by a consumer; nothing when it was seen before.
INSERT INTO inbox_consumption (consumer_id, event_id, document_sha256, created_at)
SELECT ?1, ?2, ?3, clock.now
FROM database_clock AS clock
WHERE true
ON CONFLICT (consumer_id, effect_generation, event_id) DO NOTHING
