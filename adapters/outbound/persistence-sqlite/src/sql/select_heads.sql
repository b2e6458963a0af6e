-- The claimable heads that have waited longest after a place in (claimable_at, event_id), each with
-- the open attempts of a lapsed claim and whether its budget is spent. ?1 is a JSON array of what
-- this process can send, ?2 the attempt budget, ?3 the maximum of attempts, ?4 and ?5 the place, ?6
-- the limit. The clock is a scalar, so that the claimable rows come in the order of their index and
-- the last match ends the search.
WITH known (contract_id, payload_version, schema_hash, destination, revision) AS MATERIALIZED (
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
    FROM json_each(?1)
)
SELECT
    delivery.event_id,
    delivery.delivery_generation,
    delivery.row_version,
    delivery.claimable_at,
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
        WHEN (SELECT now FROM database_clock) + ?2 > delivery.automatic_attempt_deadline THEN 'deadline'
        WHEN delivery.state = 'CLAIMED' AND delivery.publication_attempt_count >= ?3
            THEN 'attempts'
    END AS spent
FROM outbox_delivery AS delivery
CROSS JOIN outbox_event AS event ON event.event_id = delivery.event_id
WHERE delivery.authority_status = 'CURRENT'
    AND delivery.claimable_at <= (SELECT now FROM database_clock)
    AND (delivery.claimable_at, delivery.event_id) > (?4, ?5)
    AND event.dispatch_authority = 'POLLING_V2'
    AND EXISTS (
        SELECT 1
        FROM outbox_publication_epoch AS epoch
        WHERE epoch.state = 'ACTIVE' AND epoch.authority = 'POLLING_V2'
    )
    AND NOT EXISTS (
        SELECT 1
        FROM outbox_claim_fence AS fence
        WHERE CASE fence.kind
            WHEN 'EVERYTHING' THEN 1
            WHEN 'DESTINATION' THEN fence.subject = event.logical_destination_id
            WHEN 'ORDERING_SCOPE' THEN fence.subject = event.partition_key_text
            ELSE fence.subject = event.event_id
        END
    )
    AND (delivery.ordering_required = 0 OR NOT EXISTS (
        SELECT 1
        FROM outbox_delivery AS earlier
        WHERE earlier.partition_key_text = delivery.partition_key_text
            AND (earlier.aggregate_sequence, earlier.aggregate_event_index)
                < (delivery.aggregate_sequence, delivery.aggregate_event_index)
            AND earlier.authority_status = 'CURRENT'
            AND earlier.state NOT IN
                ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    ))
    AND EXISTS (
        SELECT 1
        FROM known
        WHERE known.contract_id = event.contract_id
            AND known.payload_version = event.payload_version
            AND known.schema_hash = lower(hex(event.payload_schema_hash))
            AND known.destination = event.logical_destination_id
            AND known.revision = event.destination_binding_revision
    )
ORDER BY delivery.claimable_at, delivery.event_id
LIMIT ?6
