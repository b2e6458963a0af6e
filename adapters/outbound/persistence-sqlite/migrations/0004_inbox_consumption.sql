-- One row per applied effect (requirement 004 §25.1), committed with it. A deployment without tenants
-- has the scope `system`, never NULL.

CREATE TABLE inbox_consumption (
    consumer_id       TEXT    NOT NULL
        CHECK (length(consumer_id) BETWEEN 1 AND 128
            AND consumer_id GLOB '[A-Za-z0-9]*' AND consumer_id NOT GLOB '*[^A-Za-z0-9._:-]*'),
    effect_generation INTEGER NOT NULL DEFAULT 0 CHECK (effect_generation >= 0),
    tenant_scope      TEXT    NOT NULL
        CHECK (length(tenant_scope) BETWEEN 1 AND 96
            AND tenant_scope GLOB '[A-Za-z0-9]*' AND tenant_scope NOT GLOB '*[^A-Za-z0-9._:-]*'
            AND (tenant_scope = 'system' OR lower(tenant_scope) <> 'system')),
    event_id          TEXT    NOT NULL
        CHECK (length(event_id) BETWEEN 1 AND 96
            AND event_id GLOB '[A-Za-z0-9]*' AND event_id NOT GLOB '*[^A-Za-z0-9._:-]*'),
    contract_id       TEXT    NOT NULL
        CHECK (length(contract_id) BETWEEN 3 AND 96
            AND contract_id GLOB '[a-z]*.[a-z]*' AND contract_id NOT GLOB '*[^a-z0-9.-]*'),
    payload_version   INTEGER NOT NULL CHECK (payload_version BETWEEN 1 AND 2147483647),
    document_sha256   BLOB    NOT NULL CHECK (length(document_sha256) = 32),
    applied_at        INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    PRIMARY KEY (consumer_id, effect_generation, tenant_scope, event_id)
) STRICT, WITHOUT ROWID;
