-- The CURRENT generation of an event, as an operator's command meets it under the write lock.
SELECT
    delivery.event_id, delivery.delivery_generation, delivery.row_version, delivery.state,
    delivery.claim_token, delivery.claim_owner, delivery.claim_until, delivery.next_attempt_at,
    event.dispatch_authority, event.created_at AS event_created_at,
    (SELECT now FROM database_clock) AS now,
    EXISTS (
        SELECT 1
        FROM outbox_publication_epoch AS epoch
        WHERE epoch.state = 'ACTIVE' AND epoch.authority = 'POLLING_V2'
    ) AS polling
FROM outbox_delivery AS delivery
JOIN outbox_event AS event ON event.event_id = delivery.event_id
WHERE delivery.event_id = ?1 AND delivery.authority_status = 'CURRENT'
