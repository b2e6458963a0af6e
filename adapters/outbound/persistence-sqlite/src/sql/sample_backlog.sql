-- Unresolved deliveries, ?1 of them at most, the oldest of these, and the file's size.
SELECT
    (SELECT now FROM database_clock) AS now,
    count(*) AS unresolved,
    min(created_at) AS oldest,
    (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size) AS store_bytes
FROM (
    SELECT created_at
    FROM outbox_delivery
    WHERE authority_status = 'CURRENT'
        AND state NOT IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    LIMIT ?1
)
