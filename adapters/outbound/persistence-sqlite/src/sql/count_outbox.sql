-- Everything at once: one statement is one snapshot.
SELECT 'events' AS kind, '' AS state, count(*) AS total FROM outbox_event
UNION ALL
SELECT 'without_delivery', '', count(*)
FROM outbox_event AS event
WHERE NOT EXISTS (SELECT 1 FROM outbox_delivery AS delivery WHERE delivery.event_id = event.event_id)
UNION ALL
SELECT 'retried', '', count(*)
FROM outbox_delivery
WHERE authority_status = 'CURRENT' AND publication_attempt_count > 1
UNION ALL
SELECT 'state', state, count(*)
FROM outbox_delivery
WHERE authority_status = 'CURRENT'
GROUP BY state
