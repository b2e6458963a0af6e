-- Unresolved rows that a process knowing only ?1 cannot send, each under the first reason that
-- applies.
WITH known (contract_id, payload_version, schema_hash, destination, revision) AS MATERIALIZED (
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
    FROM json_each(?1)
),
unresolved AS (
    SELECT
        CASE
            WHEN NOT EXISTS (
                SELECT 1
                FROM known
                WHERE known.contract_id = event.contract_id
                    AND known.payload_version = event.payload_version
            ) THEN 'contract-version'
            WHEN NOT EXISTS (
                SELECT 1
                FROM known
                WHERE known.contract_id = event.contract_id
                    AND known.payload_version = event.payload_version
                    AND known.schema_hash = lower(hex(event.payload_schema_hash))
            ) THEN 'schema-hash'
            WHEN NOT EXISTS (
                SELECT 1
                FROM known
                WHERE known.contract_id = event.contract_id
                    AND known.payload_version = event.payload_version
                    AND known.schema_hash = lower(hex(event.payload_schema_hash))
                    AND known.destination = event.logical_destination_id
                    AND known.revision = event.destination_binding_revision
            ) THEN 'binding-revision'
        END AS reason
    FROM outbox_delivery AS delivery
    JOIN outbox_event AS event ON event.event_id = delivery.event_id
    WHERE delivery.authority_status = 'CURRENT'
        AND delivery.state NOT IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
)
SELECT reason, count(*) AS total
FROM unresolved
WHERE reason IS NOT NULL
GROUP BY reason
