-- One head under the write lock, judged whole: state, row version, time, epoch, authority, fences
-- and ordering gate. It comes with the open attempts of a lapsed claim and whether its budget is
-- spent; no row means that it may not be taken. ?4 is the attempt budget, ?5 the maximum of attempts.
SELECT
    delivery.state = 'CLAIMED' AS lapsed,
    CASE WHEN delivery.state = 'CLAIMED' THEN (
        SELECT count(*)
        FROM outbox_delivery_attempt_observation AS admitted
        WHERE admitted.event_id = delivery.event_id
            AND admitted.delivery_generation = delivery.delivery_generation
            AND admitted.observation_type = 'ATTEMPT_ADMITTED'
            AND NOT EXISTS (
                SELECT 1
                FROM outbox_delivery_attempt_observation AS outcome
                WHERE outcome.event_id = admitted.event_id
                    AND outcome.delivery_generation = admitted.delivery_generation
                    AND outcome.publication_attempt_id = admitted.publication_attempt_id
                    AND outcome.observation_type = 'OUTCOME_OBSERVED'
            )
    ) ELSE 0 END AS open_attempts,
    CASE
        WHEN (SELECT now FROM database_clock) + ?4 > delivery.automatic_attempt_deadline
            THEN 'deadline'
        WHEN delivery.state = 'CLAIMED' AND delivery.publication_attempt_count >= ?5
            THEN 'attempts'
    END AS spent
FROM outbox_delivery AS delivery
CROSS JOIN outbox_event AS event ON event.event_id = delivery.event_id
WHERE delivery.event_id = ?1
    AND delivery.delivery_generation = ?2
    AND delivery.row_version = ?3
    AND delivery.authority_status = 'CURRENT'
    AND (delivery.state = 'READY' OR delivery.claimable_at <= (SELECT now FROM database_clock))
    AND event.dispatch_authority = 'POLLING_V2'
    AND EXISTS (
        SELECT 1
        FROM outbox_publication_epoch AS epoch
        WHERE epoch.state = 'ACTIVE' AND epoch.authority = 'POLLING_V2'
    )
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_claim_fence AS fence
        WHERE (fence.kind = 'EVERYTHING' AND fence.subject = '')
            OR (fence.kind = 'DESTINATION' AND fence.subject = delivery.logical_destination_id)
            OR (fence.kind = 'ORDERING_SCOPE' AND fence.subject = delivery.partition_key_text)
            OR (fence.kind = 'EVENT' AND fence.subject = delivery.event_id)
    )
    AND (delivery.ordering_required = 0 OR NOT EXISTS (
        SELECT 1
        FROM outbox_delivery AS earlier
        WHERE earlier.logical_destination_id = delivery.logical_destination_id
            AND earlier.partition_key_text = delivery.partition_key_text
            AND (earlier.aggregate_sequence, earlier.aggregate_event_index)
                < (delivery.aggregate_sequence, delivery.aggregate_event_index)
            AND earlier.authority_status = 'CURRENT'
            AND earlier.state NOT IN
                ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    ))
