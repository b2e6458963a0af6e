-- Which of the locked events may go: every condition of requirement 004 §19.6, seen after the
-- locks. An event with a generation that somebody else holds is left.
--
-- $1 event ids, $2 how many of their generations are locked, $3 audit retention and $4 replay
-- horizon in microseconds.
SELECT e.event_id
  FROM unnest($1::text[], $2::bigint[]) AS locked (event_id, generations)
  JOIN outbox_event AS e ON e.event_id = locked.event_id
 WHERE e.dispatch_authority <> 'CDC'
   AND e.created_at + $4::bigint * interval '1 microsecond' <= clock_timestamp()
   AND locked.generations = (
       SELECT count(*) FROM outbox_delivery AS d WHERE d.event_id = e.event_id
   )
   AND EXISTS (
       SELECT 1
         FROM outbox_delivery AS d
        WHERE d.event_id = e.event_id
          AND d.authority_status = 'CURRENT'
          AND d.state IN (
              'DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED'
          )
          AND d.terminal_at + $3::bigint * interval '1 microsecond' <= clock_timestamp()
       OFFSET 0
   )
   AND NOT EXISTS (
       SELECT 1 FROM outbox_legal_hold AS held WHERE held.event_id = e.event_id OFFSET 0
   )
   AND NOT EXISTS (
       SELECT 1
         FROM outbox_disposition_audit AS audit
        WHERE audit.compensating_event_id = e.event_id
       OFFSET 0
   )
   AND NOT EXISTS (
       SELECT 1
         FROM outbox_delivery_attempt_observation AS admitted
        WHERE admitted.event_id = e.event_id
          AND admitted.observation_type = 'ATTEMPT_ADMITTED'
          AND NOT EXISTS (
              SELECT 1
                FROM outbox_delivery_attempt_observation AS outcome
               WHERE outcome.event_id = admitted.event_id
                 AND outcome.delivery_generation = admitted.delivery_generation
                 AND outcome.publication_attempt_id = admitted.publication_attempt_id
                 AND outcome.observation_type = 'OUTCOME_OBSERVED'
              OFFSET 0
          )
       OFFSET 0
   )
 ORDER BY e.event_id
