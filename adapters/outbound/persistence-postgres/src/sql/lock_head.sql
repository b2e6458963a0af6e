-- Locks the ACTIVE polling epoch and the claim gate, then one head by key with the whole predicate again; no row when
-- no polling epoch is active, a fence covers it, another transaction holds the head, it changed since it was found, or
-- something before it opened again. The clock is read only after the lock, since the locked row is
-- what the outer query reads.
--
-- $1 event id, $2 generation, $3 row version.
WITH epoch AS MATERIALIZED (
    SELECT epoch_id
      FROM outbox_publication_epoch
     WHERE state = 'ACTIVE'
       AND authority = 'POLLING_V2'
       FOR SHARE
), gate AS MATERIALIZED (
    SELECT everything, destinations, scopes, events
      FROM outbox_claim_gate
       FOR SHARE
), locked AS MATERIALIZED (
    SELECT d.event_id, d.delivery_generation, d.row_version, d.state, d.claim_count,
           d.publication_attempt_count, d.next_attempt_at, d.claim_token, d.claim_owner,
           d.claim_until, d.automatic_attempt_deadline
      FROM outbox_delivery AS d
     WHERE EXISTS (SELECT 1 FROM epoch)
       AND EXISTS (
           SELECT 1
             FROM gate
             JOIN outbox_event AS e ON e.event_id = $1::text
            WHERE NOT gate.everything
              AND e.logical_destination_id <> ALL (gate.destinations)
              AND e.partition_key_text <> ALL (gate.scopes)
              AND e.event_id <> ALL (gate.events)
       )
       AND d.event_id = $1::text
       AND d.delivery_generation = $2::bigint
       AND d.row_version = $3::bigint
       AND d.authority_status = 'CURRENT'
       AND d.claimable
       AND (
           NOT d.ordering_required
           OR NOT EXISTS (
               SELECT 1
                 FROM outbox_delivery AS earlier
                WHERE earlier.blocks_scope
                  AND earlier.claim_lane = d.claim_lane
                  AND earlier.partition_key_text = d.partition_key_text
                  AND (earlier.aggregate_sequence, earlier.aggregate_event_index)
                      < (d.aggregate_sequence, d.aggregate_event_index)
               OFFSET 0
           )
       )
       FOR UPDATE OF d SKIP LOCKED
)
SELECT locked.state, locked.claim_count, locked.publication_attempt_count,
       (extract(epoch FROM locked.next_attempt_at) * 1000000)::bigint AS next_attempt_at,
       locked.claim_token, locked.claim_owner,
       (extract(epoch FROM locked.claim_until) * 1000000)::bigint AS claim_until,
       (extract(epoch FROM locked.automatic_attempt_deadline) * 1000000)::bigint
           AS automatic_attempt_deadline,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
  FROM locked
