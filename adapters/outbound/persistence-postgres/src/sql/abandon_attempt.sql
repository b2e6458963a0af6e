-- Closes the attempt of a lapsed claim whose row is locked: it may have reached the broker.
--
-- $1 event id, $2 generation, $3 the lapsed claim's token, $4 the stage it is reported under.
INSERT INTO outbox_delivery_attempt_observation (
    event_id, delivery_generation, publication_attempt_id, observation_sequence, observation_type,
    claim_token_digest, producer_generation, destination_binding_revision, acceptance_certainty,
    retry_disposition, failure_class, failure_stage
)
SELECT admitted.event_id, admitted.delivery_generation, admitted.publication_attempt_id,
       (
           SELECT coalesce(max(earlier.observation_sequence), 0) + 1
             FROM outbox_delivery_attempt_observation AS earlier
            WHERE earlier.event_id = admitted.event_id
              AND earlier.delivery_generation = admitted.delivery_generation
       ),
       'OUTCOME_OBSERVED', admitted.claim_token_digest, admitted.producer_generation,
       admitted.destination_binding_revision, 'INDETERMINATE', 'RETRY_WITHIN_BUDGET',
       'ATTEMPT_ABANDONED', $4::text
  FROM outbox_delivery_attempt_observation AS admitted
 WHERE admitted.event_id = $1::text
   AND admitted.delivery_generation = $2::bigint
   AND admitted.observation_type = 'ATTEMPT_ADMITTED'
   AND admitted.claim_token_digest = sha256($3::bytea)
