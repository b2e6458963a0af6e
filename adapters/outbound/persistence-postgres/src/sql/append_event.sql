-- One append: the ACTIVE epoch is locked FOR SHARE and consumed by the insert, the store's own id
-- is copied, and a polling epoch gets the event's first delivery. No row means that no epoch is
-- active, and then nothing was inserted.
--
-- $1…$25 the event as sealed ($12 whole seconds of occurred_at), $26 dispatch profile, $27 initial
-- age in microseconds, $28 milliseconds of occurred_at.
WITH epoch AS (
    SELECT epoch_id, authority
      FROM outbox_publication_epoch
     WHERE state = 'ACTIVE'
       FOR SHARE
), event AS (
    INSERT INTO outbox_event (
        event_id, envelope_version, contract_id, payload_version, logical_destination_id,
        destination_binding_revision, aggregate_type, aggregate_id, aggregate_sequence,
        aggregate_event_index, partition_key_text, occurred_at, tenant_scope, correlation_id,
        causation_id, traceparent, tracestate, content_type, envelope_bytes, envelope_sha256,
        envelope_schema_hash, payload_schema_hash, schema_set_hash, contract_catalog_revision,
        ordering_required, publication_epoch, dispatch_authority, transaction_resource_id
    )
    SELECT
        $1::text, $2::integer, $3::text, $4::integer, $5::text,
        $6::text, $7::text, $8::text, $9::bigint,
        $10::integer, $11::text,
        -- Whole days and the rest apart, so that no step is rounded.
        timestamp '1970-01-01' + make_interval(days => ($12::bigint / 86400)::integer)
            + ($12::bigint % 86400) * interval '1 second'
            + $28::bigint * interval '1 millisecond',
        $13::text, $14::text,
        $15::text, $16::text, $17::text, $18::text, $19::bytea, $20::bytea,
        $21::bytea, $22::bytea, $23::bytea, $24::bytea,
        $25::boolean, epoch.epoch_id, epoch.authority,
        (SELECT resource_id FROM transaction_resource)
      FROM epoch
    RETURNING event_id, publication_epoch, dispatch_authority, transaction_resource_id, created_at
), delivery AS (
    INSERT INTO outbox_delivery (
        event_id, delivery_generation, authority_status, dispatch_profile_id, state,
        automatic_attempt_deadline
    )
    SELECT event.event_id, 1, 'CURRENT', $26::text, 'READY',
           event.created_at + $27::bigint * interval '1 microsecond'
      FROM event
     WHERE event.dispatch_authority = 'POLLING_V2'
    RETURNING event_id
)
SELECT event.publication_epoch, event.dispatch_authority, event.transaction_resource_id,
       (SELECT count(*) FROM delivery) AS deliveries
  FROM event
