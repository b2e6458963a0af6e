-- The valid-lease CAS of requirement 004 §18.6 for the attempt admitted under its token: the lease
-- begins anew, everything else stays.
--
-- $1 event id, $2 generation, $3 token, $4 owner, $5 lease in microseconds, $6 attempt id, $7 token
-- digest.
UPDATE outbox_delivery AS d
   SET claim_until = clock_timestamp() + $5::bigint * interval '1 microsecond',
       row_version = d.row_version + 1,
       updated_at = clock_timestamp()
 WHERE d.event_id = $1::text
   AND d.delivery_generation = $2::bigint
   AND d.authority_status = 'CURRENT'
   AND d.state = 'CLAIMED'
   AND d.claim_token = $3::bytea
   AND d.claim_owner = $4::text
   AND d.claim_until > clock_timestamp()
   AND EXISTS (
       SELECT 1
         FROM outbox_delivery_attempt_observation AS admitted
        WHERE admitted.event_id = d.event_id
          AND admitted.delivery_generation = d.delivery_generation
          AND admitted.publication_attempt_id = $6::text
          AND admitted.observation_type = 'ATTEMPT_ADMITTED'
          AND admitted.claim_token_digest = $7::bytea
   )
RETURNING (extract(epoch FROM d.claim_until) * 1000000)::bigint
