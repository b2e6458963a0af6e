-- The immutable event (requirement 004 §18.1). The columns that claims read come before the
-- document, so that reading them never walks its pages.

CREATE TABLE outbox_event (
    event_id                     TEXT    NOT NULL PRIMARY KEY
        CHECK (length(event_id) BETWEEN 1 AND 96
            AND event_id GLOB '[A-Za-z0-9]*' AND event_id NOT GLOB '*[^A-Za-z0-9._:-]*'),
    envelope_version             INTEGER NOT NULL CHECK (envelope_version = 1),
    contract_id                  TEXT    NOT NULL
        CHECK (length(contract_id) BETWEEN 3 AND 96
            AND contract_id GLOB '[a-z]*.[a-z]*' AND contract_id NOT GLOB '*[^a-z0-9.-]*'),
    payload_version              INTEGER NOT NULL CHECK (payload_version BETWEEN 1 AND 2147483647),
    logical_destination_id       TEXT    NOT NULL
        CHECK (length(logical_destination_id) BETWEEN 1 AND 96
            AND logical_destination_id GLOB '[a-z]*'
            AND logical_destination_id NOT GLOB '*[^a-z0-9-]*'),
    destination_binding_revision TEXT    NOT NULL
        CHECK (length(destination_binding_revision) BETWEEN 1 AND 96
            AND destination_binding_revision GLOB '[a-z]*'
            AND destination_binding_revision NOT GLOB '*[^a-z0-9.-]*'),
    aggregate_type               TEXT    NOT NULL
        CHECK (length(aggregate_type) BETWEEN 1 AND 64
            AND aggregate_type GLOB '[a-z]*' AND aggregate_type NOT GLOB '*[^a-z0-9-]*'),
    aggregate_id                 TEXT    NOT NULL
        CHECK (length(CAST(aggregate_id AS BLOB)) BETWEEN 1 AND 256),
    aggregate_sequence           INTEGER NOT NULL
        CHECK (aggregate_sequence BETWEEN 0 AND 9007199254740991),
    aggregate_event_index        INTEGER NOT NULL
        CHECK (aggregate_event_index BETWEEN 0 AND 2147483647),
    partition_key_text           TEXT    NOT NULL
        CHECK (length(partition_key_text) = 64 AND partition_key_text NOT GLOB '*[^0-9a-f]*'),
    ordering_required            INTEGER NOT NULL CHECK (ordering_required IN (0, 1)),
    -- The domain's fact, cut to the millisecond that the document shows: years 0001 to 9999.
    occurred_at                  INTEGER NOT NULL
        CHECK (occurred_at BETWEEN -62135596800000000 AND 253402300799999000
            AND occurred_at % 1000 = 0),
    created_at                   INTEGER NOT NULL,
    tenant_scope                 TEXT    NOT NULL
        CHECK (length(tenant_scope) BETWEEN 1 AND 96
            AND tenant_scope GLOB '[A-Za-z0-9]*' AND tenant_scope NOT GLOB '*[^A-Za-z0-9._:-]*'
            AND (tenant_scope = 'system' OR lower(tenant_scope) <> 'system')),
    correlation_id               TEXT    NOT NULL
        CHECK (length(correlation_id) BETWEEN 1 AND 128
            AND correlation_id GLOB '[A-Za-z0-9]*' AND correlation_id NOT GLOB '*[^A-Za-z0-9._:-]*'),
    causation_id                 TEXT
        CHECK (length(causation_id) BETWEEN 1 AND 128
            AND causation_id GLOB '[A-Za-z0-9]*' AND causation_id NOT GLOB '*[^A-Za-z0-9._:-]*'),
    traceparent                  TEXT
        CHECK (length(traceparent) = 55 AND traceparent NOT GLOB '*[^0-9a-f-]*'),
    tracestate                   TEXT
        CHECK (length(tracestate) BETWEEN 1 AND 512 AND tracestate NOT GLOB '*[^ -~]*'),
    content_type                 TEXT    NOT NULL CHECK (content_type = 'application/json'),
    envelope_sha256              BLOB    NOT NULL CHECK (length(envelope_sha256) = 32),
    envelope_schema_hash         BLOB    NOT NULL CHECK (length(envelope_schema_hash) = 32),
    payload_schema_hash          BLOB    NOT NULL CHECK (length(payload_schema_hash) = 32),
    schema_set_hash              BLOB    NOT NULL CHECK (length(schema_set_hash) = 32),
    contract_catalog_revision    BLOB    NOT NULL CHECK (length(contract_catalog_revision) = 32),
    publication_epoch            INTEGER NOT NULL REFERENCES outbox_publication_epoch (epoch_id),
    dispatch_authority           TEXT    NOT NULL
        CHECK (dispatch_authority IN ('LEGACY_POLLING', 'POLLING_V2', 'CDC')),
    transaction_resource_id      TEXT    NOT NULL,
    envelope_bytes               BLOB    NOT NULL
        CHECK (length(envelope_bytes) BETWEEN 1 AND 1048576),
    CHECK (tracestate IS NULL OR traceparent IS NOT NULL),
    CONSTRAINT outbox_event_order UNIQUE (
        tenant_scope, logical_destination_id, aggregate_type, aggregate_id,
        aggregate_sequence, aggregate_event_index
    )
) STRICT;

-- REPLACE deletes without a DELETE trigger, so a taken identity is refused before the insert.
CREATE TRIGGER outbox_event_is_never_replaced BEFORE INSERT ON outbox_event
WHEN EXISTS (SELECT 1 FROM outbox_event AS other WHERE other.event_id = NEW.event_id)
    OR EXISTS (
        SELECT 1
        FROM outbox_event AS other
        WHERE other.tenant_scope = NEW.tenant_scope
            AND other.logical_destination_id = NEW.logical_destination_id
            AND other.aggregate_type = NEW.aggregate_type
            AND other.aggregate_id = NEW.aggregate_id
            AND other.aggregate_sequence = NEW.aggregate_sequence
            AND other.aggregate_event_index = NEW.aggregate_event_index
    )
BEGIN
    SELECT RAISE(ABORT, 'outbox_event: identity or order is taken');
END;

CREATE TRIGGER outbox_event_belongs_to_the_active_epoch BEFORE INSERT ON outbox_event
WHEN NOT EXISTS (
    SELECT 1
    FROM outbox_publication_epoch AS epoch
    JOIN transaction_resource AS resource
    WHERE epoch.state = 'ACTIVE'
        AND epoch.epoch_id = NEW.publication_epoch
        AND epoch.authority = NEW.dispatch_authority
        AND resource.resource_id = NEW.transaction_resource_id
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_event: epoch, authority or resource is not the store''s own');
END;

CREATE TRIGGER outbox_event_is_never_changed BEFORE UPDATE ON outbox_event
BEGIN
    SELECT RAISE(ABORT, 'outbox_event is INSERT-only');
END;

CREATE TRIGGER outbox_event_is_never_deleted BEFORE DELETE ON outbox_event
BEGIN
    SELECT RAISE(ABORT, 'outbox_event is INSERT-only');
END;
