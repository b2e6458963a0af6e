-- The oldest unresolved deliveries, ?1 of them at most, and the file's size.
SELECT
    (SELECT now FROM database_clock) AS now,
    count(*) AS unresolved,
    min(backlog.created_at) AS oldest,
    (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size) AS store_bytes
FROM (
    SELECT delivery.created_at
    FROM outbox_delivery AS delivery
    WHERE delivery.authority_status = 'CURRENT'
        AND delivery.state NOT IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    ORDER BY delivery.created_at
    LIMIT ?1
) AS backlog
