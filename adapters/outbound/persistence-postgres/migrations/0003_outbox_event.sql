-- The immutable event (requirement 004 §18.1). `envelope_bytes` is the wire authority.
--
-- `occurred_at` is the domain's fact, always UTC, without a zone so that a change-data-capture
-- connector can emit it as the record's timestamp. Every other instant is the database's.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE outbox_event (
    event_id                     varchar(96)  COLLATE "C" NOT NULL,
    envelope_version             integer      NOT NULL,
    contract_id                  varchar(96)  COLLATE "C" NOT NULL,
    payload_version              integer      NOT NULL,
    logical_destination_id       varchar(96)  COLLATE "C" NOT NULL,
    destination_binding_revision varchar(96)  COLLATE "C" NOT NULL,
    aggregate_type               varchar(64)  COLLATE "C" NOT NULL,
    aggregate_id                 varchar(256) COLLATE "C" NOT NULL,
    aggregate_sequence           bigint       NOT NULL,
    aggregate_event_index        integer      NOT NULL,
    partition_key_text           varchar(64)  COLLATE "C" NOT NULL,
    occurred_at                  timestamp(3) NOT NULL,
    created_at                   timestamptz  NOT NULL DEFAULT clock_timestamp(),
    tenant_scope                 varchar(96)  COLLATE "C" NOT NULL,
    correlation_id               varchar(128) COLLATE "C" NOT NULL,
    causation_id                 varchar(128) COLLATE "C",
    traceparent                  varchar(55)  COLLATE "C",
    tracestate                   varchar(512) COLLATE "C",
    content_type                 varchar(64)  COLLATE "C" NOT NULL,
    envelope_bytes               bytea        NOT NULL,
    envelope_sha256              bytea        NOT NULL,
    envelope_schema_hash         bytea        NOT NULL,
    payload_schema_hash          bytea        NOT NULL,
    schema_set_hash              bytea        NOT NULL,
    contract_catalog_revision    bytea        NOT NULL,
    publication_epoch            bigint       NOT NULL,
    dispatch_authority           varchar(16)  COLLATE "C" NOT NULL,
    transaction_resource_id      varchar(64)  COLLATE "C" NOT NULL,
    ordering_required            boolean      NOT NULL,

    CONSTRAINT outbox_event_pkey PRIMARY KEY (event_id),
    CONSTRAINT outbox_event_order_key UNIQUE (
        tenant_scope, logical_destination_id, aggregate_type, aggregate_id,
        aggregate_sequence, aggregate_event_index
    ),
    CONSTRAINT outbox_event_epoch_fkey FOREIGN KEY (publication_epoch, dispatch_authority)
        REFERENCES outbox_publication_epoch (epoch_id, authority),

    CONSTRAINT outbox_event_id_grammar CHECK (event_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT outbox_event_envelope_version CHECK (envelope_version = 1),
    CONSTRAINT outbox_event_contract_grammar
        CHECK (contract_id ~ '^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+$'),
    CONSTRAINT outbox_event_payload_version CHECK (payload_version >= 1),
    CONSTRAINT outbox_event_destination_grammar
        CHECK (logical_destination_id ~ '^[a-z][a-z0-9-]*$'),
    CONSTRAINT outbox_event_binding_grammar
        CHECK (destination_binding_revision ~ '^[a-z][a-z0-9.-]*$'),
    CONSTRAINT outbox_event_aggregate_type_grammar CHECK (aggregate_type ~ '^[a-z][a-z0-9-]*$'),
    CONSTRAINT outbox_event_aggregate_id_form CHECK (
        octet_length(aggregate_id) BETWEEN 1 AND 256
        AND aggregate_id IS NFC NORMALIZED
        AND aggregate_id !~ '^ |  | $|[\x01-\x1f\x7f]'
    ),
    CONSTRAINT outbox_event_order_range CHECK (
        aggregate_sequence BETWEEN 0 AND 9007199254740991 AND aggregate_event_index >= 0
    ),
    CONSTRAINT outbox_event_partition_key_form CHECK (partition_key_text ~ '^[0-9a-f]{64}$'),
    -- `system` is the scope of a deployment without tenants, in exactly this spelling.
    CONSTRAINT outbox_event_tenant_grammar CHECK (
        tenant_scope ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        AND (tenant_scope = 'system' OR lower(tenant_scope) <> 'system')
    ),
    CONSTRAINT outbox_event_correlation_grammar
        CHECK (correlation_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT outbox_event_causation_grammar
        CHECK (causation_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT outbox_event_traceparent_form
        CHECK (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'),
    CONSTRAINT outbox_event_tracestate_form CHECK (
        tracestate IS NULL OR (traceparent IS NOT NULL AND tracestate ~ '^[\x20-\x7e]+$')
    ),
    CONSTRAINT outbox_event_content_type CHECK (content_type = 'application/json'),
    CONSTRAINT outbox_event_envelope_present CHECK (octet_length(envelope_bytes) >= 1),
    CONSTRAINT outbox_event_hash_lengths CHECK (
        octet_length(envelope_sha256) = 32
        AND octet_length(envelope_schema_hash) = 32
        AND octet_length(payload_schema_hash) = 32
        AND octet_length(schema_set_hash) = 32
        AND octet_length(contract_catalog_revision) = 32
    )
);

-- The insert time, whatever the writer says. The age budget of the first generation starts here.
CREATE FUNCTION outbox_event_stamp() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    NEW.created_at := clock_timestamp();
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_event_created_at
    BEFORE INSERT ON outbox_event
    FOR EACH ROW EXECUTE FUNCTION outbox_event_stamp();

CREATE TRIGGER outbox_event_insert_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox_event
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();
