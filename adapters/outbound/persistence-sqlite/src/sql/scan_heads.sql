-- Heads of ordering scopes of one destination after a place, by one index probe a scope, without a
-- lock. At most ?5 scopes are looked at, eligible or not; the one at which that bound ended the scan
-- is returned as well, so that the next scan goes on from it. Time, state, epoch and fences are
-- hints here; they are judged again under the write lock.
--
-- ?1 destination, ?2 key after which to begin, ?3 key at which to end, ?4 most rows returned, ?5
-- most scopes looked at, ?6 a JSON array of what this process can send.
WITH RECURSIVE known (contract_id, payload_version, schema_hash, revision) AS MATERIALIZED (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 4
    FROM json_each(?6)
    WHERE value ->> 3 = ?1
),
head (delivery_row, partition_key_text, looked) AS (
    SELECT opening.delivery_row, opening.partition_key_text, 1
    FROM (
        SELECT delivery.rowid AS delivery_row, delivery.partition_key_text
        FROM outbox_delivery AS delivery
        WHERE delivery.logical_destination_id = ?1
            AND delivery.partition_key_text > ?2
            AND delivery.partition_key_text <= ?3
            AND delivery.authority_status = 'CURRENT'
            AND delivery.state NOT IN
                ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
        ORDER BY delivery.partition_key_text, delivery.aggregate_sequence,
            delivery.aggregate_event_index
        LIMIT 1
    ) AS opening
    UNION ALL
    SELECT following.rowid, following.partition_key_text, head.looked + 1
    FROM head
    CROSS JOIN outbox_delivery AS following
    WHERE following.rowid = (
        SELECT delivery.rowid
        FROM outbox_delivery AS delivery
        WHERE delivery.logical_destination_id = ?1
            AND delivery.partition_key_text > head.partition_key_text
            AND delivery.partition_key_text <= ?3
            AND delivery.authority_status = 'CURRENT'
            AND delivery.state NOT IN
                ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
        ORDER BY delivery.partition_key_text, delivery.aggregate_sequence,
            delivery.aggregate_event_index
        LIMIT 1
    )
    LIMIT ?5
),
looked_at AS (
    SELECT
        delivery.event_id, delivery.delivery_generation, delivery.row_version, delivery.state,
        head.partition_key_text, delivery.aggregate_sequence, delivery.aggregate_event_index,
        head.looked,
        delivery.ordering_required = 1
            AND (delivery.state = 'READY'
                OR delivery.claimable_at <= (SELECT now FROM database_clock))
            AND EXISTS (
                SELECT 1
                FROM outbox_publication_epoch AS epoch
                WHERE epoch.state = 'ACTIVE' AND epoch.authority = 'POLLING_V2'
            )
            AND NOT EXISTS (
                SELECT 1
                FROM outbox_claim_fence AS fence
                WHERE (fence.kind = 'EVERYTHING' AND fence.subject = '')
                    OR (fence.kind = 'DESTINATION' AND fence.subject = ?1)
                    OR (fence.kind = 'ORDERING_SCOPE'
                        AND fence.subject = delivery.partition_key_text)
                    OR (fence.kind = 'EVENT' AND fence.subject = delivery.event_id)
            )
            AND EXISTS (
                SELECT 1
                FROM outbox_event AS event
                CROSS JOIN known
                WHERE event.event_id = delivery.event_id
                    AND event.dispatch_authority = 'POLLING_V2'
                    AND known.contract_id = event.contract_id
                    AND known.payload_version = event.payload_version
                    AND known.schema_hash = lower(hex(event.payload_schema_hash))
                    AND known.revision = event.destination_binding_revision
            ) AS eligible
    FROM head
    CROSS JOIN outbox_delivery AS delivery
    WHERE delivery.rowid = head.delivery_row
)
SELECT *
FROM looked_at
WHERE eligible OR looked = ?5
LIMIT ?4
