-- What is known of an attempt that was admitted under this token. No row: it never was.
--
-- $1 attempt id, $2 token, $3 token digest.
SELECT d.event_id, d.delivery_generation, d.state, d.claim_owner, d.claim_count,
       d.publication_attempt_count,
       (extract(epoch FROM d.claim_until) * 1000000)::bigint AS claim_until,
       (
           d.state = 'CLAIMED' AND d.claim_token = $2::bytea AND d.claim_until > clock_timestamp()
       ) AS held,
       outcome.observation_sequence IS NOT NULL AS closed,
       coalesce(outcome.failure_class = 'ATTEMPT_ABANDONED', false) AS abandoned
  FROM outbox_delivery_attempt_observation AS admitted
  JOIN outbox_delivery AS d
    ON d.event_id = admitted.event_id
   AND d.delivery_generation = admitted.delivery_generation
  LEFT JOIN outbox_delivery_attempt_observation AS outcome
    ON outcome.event_id = admitted.event_id
   AND outcome.delivery_generation = admitted.delivery_generation
   AND outcome.publication_attempt_id = admitted.publication_attempt_id
   AND outcome.observation_type = 'OUTCOME_OBSERVED'
 WHERE admitted.publication_attempt_id = $1::text
   AND admitted.observation_type = 'ATTEMPT_ADMITTED'
   AND admitted.claim_token_digest = $3::bytea
