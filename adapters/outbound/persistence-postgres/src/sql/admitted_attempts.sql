-- Which of a batch's attempts were admitted under their token, by their place in the batch from 1.
--
-- $1 event ids, $2 generations, $3 attempt ids, $4 token digests.
SELECT given.place
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[]) WITH ORDINALITY
       AS given (event_id, generation, attempt_id, digest, place)
 WHERE EXISTS (
           SELECT 1
             FROM outbox_delivery_attempt_observation AS admitted
            WHERE admitted.event_id = given.event_id
              AND admitted.delivery_generation = given.generation
              AND admitted.publication_attempt_id = given.attempt_id
              AND admitted.observation_type = 'ATTEMPT_ADMITTED'
              AND admitted.claim_token_digest = given.digest
       )
