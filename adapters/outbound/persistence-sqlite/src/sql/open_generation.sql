-- The next generation: its deadline counts from its own creation and never outlives the event's
-- requeue horizon. ?3 is the maximum age, ?4 the horizon.
INSERT INTO outbox_delivery (
    event_id, delivery_generation, authority_status, dispatch_profile_id,
    destination_binding_revision, state, claim_count, publication_attempt_count, row_version,
    created_at, automatic_attempt_deadline, updated_at, partition_key_text, aggregate_sequence,
    aggregate_event_index, ordering_required, claim_partition, logical_destination_id
)
SELECT
    old.event_id, old.delivery_generation + 1, 'CURRENT', old.dispatch_profile_id,
    old.destination_binding_revision, 'READY', 0, 0, 1,
    clock.now, min(clock.now + ?3, event.created_at + ?4), clock.now, old.partition_key_text,
    old.aggregate_sequence, old.aggregate_event_index, old.ordering_required, old.claim_partition,
    old.logical_destination_id
FROM outbox_delivery AS old
JOIN outbox_event AS event ON event.event_id = old.event_id
CROSS JOIN database_clock AS clock
WHERE old.event_id = ?1 AND old.delivery_generation = ?2
RETURNING delivery_generation, row_version
