-- Whether an event is in this outbox. The audit's foreign key asks again.
--
-- $1 event id.
SELECT EXISTS (SELECT 1 FROM outbox_event AS e WHERE e.event_id = $1::text)
