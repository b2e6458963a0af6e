-- Appends late acknowledgements of admitted attempts whose deliveries are locked; one that is there
-- already is left as it is. Nothing of a delivery changes.
--
-- $1 event ids, $2 generations, $3 attempt ids, $4 token digests, $5 producer generations,
-- $6 binding revisions, $7 observation times in epoch microseconds, $8 record references,
-- $9 certainties, $10 dispositions.
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (g.event_id, g.generation, g.attempt_id) g.*
      FROM unnest(
               $1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::text[],
               $7::bigint[], $8::text[], $9::text[], $10::text[]
           ) WITH ORDINALITY
           AS g (
               event_id, generation, attempt_id, digest, producer, binding, seen_at, reference,
               certainty, disposition, place
           )
     ORDER BY g.event_id, g.generation, g.attempt_id, g.place
), fresh AS MATERIALIZED (
    SELECT given.*,
           row_number() OVER (
               PARTITION BY given.event_id, given.generation ORDER BY given.place
           ) AS following
      FROM given
     WHERE NOT EXISTS (
               SELECT 1
                 FROM outbox_delivery_attempt_observation AS present
                WHERE present.event_id = given.event_id
                  AND present.delivery_generation = given.generation
                  AND present.publication_attempt_id = given.attempt_id
                  AND present.observation_type = 'LATE_ACK_OBSERVED'
           )
)
INSERT INTO outbox_delivery_attempt_observation (
    event_id, delivery_generation, publication_attempt_id, observation_sequence, observation_type,
    claim_token_digest, producer_generation, destination_binding_revision, observed_at,
    acceptance_certainty, retry_disposition, provider_record_reference
)
SELECT fresh.event_id, fresh.generation, fresh.attempt_id,
       fresh.following + (
           SELECT coalesce(max(earlier.observation_sequence), 0)
             FROM outbox_delivery_attempt_observation AS earlier
            WHERE earlier.event_id = fresh.event_id
              AND earlier.delivery_generation = fresh.generation
       ),
       'LATE_ACK_OBSERVED', fresh.digest, fresh.producer, fresh.binding,
       timestamptz 'epoch' + fresh.seen_at * interval '1 microsecond',
       fresh.certainty, fresh.disposition, fresh.reference
  FROM fresh
