-- Events of one destination that wait for nobody, after a place, in the order of their index and
-- without a lock. At most ?5 rows are looked at, eligible or not; the one at which that bound ended
-- the scan is returned as well, so that the next scan goes on from it. Time, state, epoch and fences
-- are hints here; they are judged again under the write lock.
--
-- ?1 destination, ?2 key, ?7 sequence and ?8 index after which to begin, ?3 key, ?9 sequence and ?10
-- index at which to end, ?4 most rows returned, ?5 most rows looked at, ?6 a JSON array of what this
-- process can send.
WITH known (contract_id, payload_version, schema_hash, revision) AS MATERIALIZED (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 4
    FROM json_each(?6)
    WHERE value ->> 3 = ?1
),
open AS (
    SELECT
        delivery.event_id, delivery.delivery_generation, delivery.row_version, delivery.state,
        delivery.partition_key_text, delivery.aggregate_sequence, delivery.aggregate_event_index,
        delivery.claimable_at
    FROM outbox_delivery AS delivery
    WHERE delivery.logical_destination_id = ?1
        AND (delivery.partition_key_text, delivery.aggregate_sequence,
            delivery.aggregate_event_index) > (?2, ?7, ?8)
        AND (delivery.partition_key_text, delivery.aggregate_sequence,
            delivery.aggregate_event_index) <= (?3, ?9, ?10)
        AND delivery.authority_status = 'CURRENT'
        AND delivery.ordering_required = 0
        AND delivery.state IN ('READY', 'RETRY_WAIT', 'CLAIMED')
    ORDER BY delivery.partition_key_text, delivery.aggregate_sequence,
        delivery.aggregate_event_index
    LIMIT ?5
),
numbered AS (
    SELECT *, row_number() OVER () AS looked FROM open
),
looked_at AS (
    SELECT
        open.event_id, open.delivery_generation, open.row_version, open.state,
        open.partition_key_text, open.aggregate_sequence, open.aggregate_event_index, open.looked,
        (open.state = 'READY' OR open.claimable_at <= (SELECT now FROM database_clock))
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
                    OR (fence.kind = 'ORDERING_SCOPE' AND fence.subject = open.partition_key_text)
                    OR (fence.kind = 'EVENT' AND fence.subject = open.event_id)
            )
            AND EXISTS (
                SELECT 1
                FROM outbox_event AS event
                CROSS JOIN known
                WHERE event.event_id = open.event_id
                    AND event.dispatch_authority = 'POLLING_V2'
                    AND known.contract_id = event.contract_id
                    AND known.payload_version = event.payload_version
                    AND known.schema_hash = lower(hex(event.payload_schema_hash))
                    AND known.revision = event.destination_binding_revision
            ) AS eligible
    FROM numbered AS open
)
SELECT *
FROM looked_at
WHERE eligible OR looked = ?5
LIMIT ?4
