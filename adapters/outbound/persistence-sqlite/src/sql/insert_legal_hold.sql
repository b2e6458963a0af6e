-- Keeps an event that is there, unless it is kept already.
INSERT INTO outbox_legal_hold (event_id, placed_at)
SELECT event.event_id, clock.now
FROM outbox_event AS event
CROSS JOIN database_clock AS clock
WHERE event.event_id = ?1
    AND NOT EXISTS (SELECT 1 FROM outbox_legal_hold AS hold WHERE hold.event_id = ?1)
