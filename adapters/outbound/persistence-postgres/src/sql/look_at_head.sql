-- A found head as it stands, without a lock, and how many open attempts its claim's token has.
--
-- $1 event id, $2 generation.
SELECT d.state, d.claim_count, d.publication_attempt_count,
       (extract(epoch FROM d.next_attempt_at) * 1000000)::bigint AS next_attempt_at,
       d.claim_token, d.claim_owner,
       (extract(epoch FROM d.claim_until) * 1000000)::bigint AS claim_until,
       (extract(epoch FROM d.automatic_attempt_deadline) * 1000000)::bigint
           AS automatic_attempt_deadline,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
       (
           SELECT count(*)
             FROM outbox_delivery_attempt_observation AS admitted
            WHERE admitted.event_id = d.event_id
              AND admitted.delivery_generation = d.delivery_generation
              AND admitted.observation_type = 'ATTEMPT_ADMITTED'
              AND admitted.claim_token_digest = sha256(d.claim_token)
       ) AS attempts
  FROM outbox_delivery AS d
 WHERE d.event_id = $1::text
   AND d.delivery_generation = $2::bigint
