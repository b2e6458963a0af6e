-- The first generation of an event of a polling epoch; its deadline counts from the event's own
-- creation. ?3 is the age, already cut at the event's own horizon.
INSERT INTO outbox_delivery (
    event_id, delivery_generation, authority_status, dispatch_profile_id,
    destination_binding_revision, state, claim_count, publication_attempt_count, row_version,
    created_at, automatic_attempt_deadline, updated_at, partition_key_text, aggregate_sequence,
    aggregate_event_index, ordering_required, claim_partition, logical_destination_id
)
SELECT
    event.event_id, 1, 'CURRENT', ?2, event.destination_binding_revision, 'READY', 0, 0, 1,
    event.created_at, event.created_at + ?3, event.created_at, event.partition_key_text,
    event.aggregate_sequence, event.aggregate_event_index, event.ordering_required,
    16 * (instr('0123456789abcdef', substr(event.partition_key_text, 1, 1)) - 1)
        + instr('0123456789abcdef', substr(event.partition_key_text, 2, 1)) - 1,
    event.logical_destination_id
FROM outbox_event AS event
WHERE event.event_id = ?1 AND event.dispatch_authority = 'POLLING_V2'
