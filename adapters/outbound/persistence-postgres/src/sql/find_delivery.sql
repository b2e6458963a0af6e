-- $1 event id.
SELECT d.event_id, e.contract_id, e.envelope_sha256, d.delivery_generation, d.state, d.claim_count,
       d.publication_attempt_count, d.last_outcome_certainty, d.last_failure_class,
       d.provider_record_reference
  FROM outbox_delivery AS d
  JOIN outbox_event AS e ON e.event_id = d.event_id
 WHERE d.authority_status = 'CURRENT'
   AND d.event_id = $1::text
