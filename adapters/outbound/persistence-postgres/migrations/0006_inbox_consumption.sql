-- One row per applied effect (requirement 004 §25.1), committed with it. A deployment without tenants
-- has the scope `system`, never NULL.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE inbox_consumption (
    consumer_id       varchar(128) COLLATE "C" NOT NULL,
    effect_generation bigint       NOT NULL DEFAULT 0,
    tenant_scope      varchar(96)  COLLATE "C" NOT NULL,
    event_id          varchar(96)  COLLATE "C" NOT NULL,
    contract_id       varchar(96)  COLLATE "C" NOT NULL,
    payload_version   integer      NOT NULL,
    document_sha256   bytea        NOT NULL,
    applied_at        timestamptz  NOT NULL DEFAULT clock_timestamp(),
    created_at        timestamptz  NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT inbox_consumption_pkey
        PRIMARY KEY (consumer_id, effect_generation, tenant_scope, event_id),
    CONSTRAINT inbox_consumption_consumer_grammar
        CHECK (consumer_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT inbox_consumption_effect_generation CHECK (effect_generation >= 0),
    CONSTRAINT inbox_consumption_tenant_grammar CHECK (
        tenant_scope ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        AND (tenant_scope = 'system' OR lower(tenant_scope) <> 'system')
    ),
    CONSTRAINT inbox_consumption_event_grammar
        CHECK (event_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT inbox_consumption_contract_grammar
        CHECK (contract_id ~ '^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+$'),
    CONSTRAINT inbox_consumption_payload_version CHECK (payload_version >= 1),
    CONSTRAINT inbox_consumption_hash CHECK (octet_length(document_sha256) = 32)
);
