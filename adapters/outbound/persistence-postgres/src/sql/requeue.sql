-- Hands the authority of the locked CURRENT row to a new READY generation, and audits it. The new
-- generation's deadline is fixed here: the profile's maximum age from now, cut at the event's
-- horizon. The row's own creation follows within the statement, so its age never exceeds the
-- profile's.
--
-- $1 event id, $2 generation, $3 row version, $4 state it is in, $5 maximum age and $6 requeue
-- horizon in microseconds, $7 operator, $8 reason code, $9 reason, $10 reference.
WITH superseded AS (
    UPDATE outbox_delivery AS d
       SET authority_status = 'SUPERSEDED',
           superseded_by_generation = d.delivery_generation + 1,
           row_version = d.row_version + 1,
           updated_at = clock_timestamp()
      FROM outbox_event AS e
     WHERE e.event_id = d.event_id
       AND d.event_id = $1::text
       AND d.delivery_generation = $2::bigint
       AND d.row_version = $3::bigint
       AND d.authority_status = 'CURRENT'
       AND d.state = $4::text
       AND d.state IN ('EXHAUSTED', 'HOLD')
       AND e.dispatch_authority = 'POLLING_V2'
       AND clock_timestamp() < e.created_at + $6::bigint * interval '1 microsecond'
    RETURNING d.event_id, d.delivery_generation, d.superseded_by_generation,
              d.dispatch_profile_id, e.created_at AS event_created_at, e.partition_key_text,
              e.envelope_sha256, e.payload_schema_hash
), opened AS (
    INSERT INTO outbox_delivery (
        event_id, delivery_generation, authority_status, dispatch_profile_id, state,
        automatic_attempt_deadline
    )
    SELECT superseded.event_id, superseded.superseded_by_generation, 'CURRENT',
           superseded.dispatch_profile_id, 'READY',
           least(
               clock_timestamp() + $5::bigint * interval '1 microsecond',
               superseded.event_created_at + $6::bigint * interval '1 microsecond'
           )
      FROM superseded
    RETURNING event_id, delivery_generation, row_version
), audited AS (
    INSERT INTO outbox_disposition_audit (
        event_id, delivery_generation, next_generation, expected_row_version, disposition,
        from_state, to_state, operator, reason_code, reason, reference,
        partition_key_text, envelope_sha256, payload_schema_hash
    )
    SELECT superseded.event_id, superseded.delivery_generation, opened.delivery_generation,
           $3::bigint, 'REMEDIATE_AND_REQUEUE', $4::text, 'READY',
           $7::text, $8::text, $9::text, $10::text,
           superseded.partition_key_text, superseded.envelope_sha256,
           superseded.payload_schema_hash
      FROM superseded
      JOIN opened ON opened.event_id = superseded.event_id
    RETURNING event_id
)
SELECT opened.delivery_generation, opened.row_version
  FROM opened
  JOIN audited ON audited.event_id = opened.event_id
