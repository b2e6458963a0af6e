-- Who may publish (requirement 004 §27.1). Every append reads the one ACTIVE row FOR SHARE.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE outbox_publication_epoch (
    epoch_id        bigint       NOT NULL,
    authority       varchar(16)  COLLATE "C" NOT NULL,
    state           varchar(16)  COLLATE "C" NOT NULL,
    source_boundary varchar(200) COLLATE "C",
    settings_digest bytea,
    activated_at    timestamptz,
    activated_by    varchar(128) COLLATE "C",
    approved_by     varchar(128) COLLATE "C",
    row_version     bigint       NOT NULL DEFAULT 1,
    CONSTRAINT outbox_publication_epoch_pkey PRIMARY KEY (epoch_id),
    -- What an event's (epoch, authority) pair refers to.
    CONSTRAINT outbox_publication_epoch_authority_key UNIQUE (epoch_id, authority),
    CONSTRAINT outbox_publication_epoch_positive CHECK (epoch_id >= 1 AND row_version >= 1),
    CONSTRAINT outbox_publication_epoch_authority
        CHECK (authority IN ('LEGACY_POLLING', 'POLLING_V2', 'CDC')),
    CONSTRAINT outbox_publication_epoch_state CHECK (state IN ('PREPARED', 'ACTIVE', 'RETIRED')),
    CONSTRAINT outbox_publication_epoch_digest CHECK (octet_length(settings_digest) = 32),
    CONSTRAINT outbox_publication_epoch_activation
        CHECK (state <> 'ACTIVE' OR (activated_at IS NOT NULL AND activated_by IS NOT NULL))
);

CREATE UNIQUE INDEX outbox_publication_epoch_one_active
    ON outbox_publication_epoch (state) WHERE state = 'ACTIVE';

INSERT INTO outbox_publication_epoch
    (epoch_id, authority, state, activated_at, activated_by, approved_by)
VALUES (1, 'POLLING_V2', 'ACTIVE', clock_timestamp(), 'migration:0002', 'migration:0002');

-- Events refer to their epoch for ever, so an epoch is retired and never removed or renumbered.
CREATE TRIGGER outbox_publication_epoch_kept
    BEFORE DELETE OR TRUNCATE ON outbox_publication_epoch
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();

CREATE TRIGGER outbox_publication_epoch_identity
    BEFORE UPDATE ON outbox_publication_epoch
    FOR EACH ROW
    WHEN (OLD.epoch_id <> NEW.epoch_id OR OLD.authority <> NEW.authority)
    EXECUTE FUNCTION countersign_refuse_change();
