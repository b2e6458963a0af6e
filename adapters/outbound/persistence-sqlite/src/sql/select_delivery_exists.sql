-- Whether a generation of an event is there.
SELECT EXISTS (
    SELECT 1 FROM outbox_delivery WHERE event_id = ?1 AND delivery_generation = ?2
)
