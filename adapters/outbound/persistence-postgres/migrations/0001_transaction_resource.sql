-- Who this store is (requirement 004 §12.4). The id is random, so a pool that leads to another
-- database is noticed at start-up; every event keeps a copy of it.
--
-- Every migration pins the search path first: objects go to the first schema of the session's
-- path, functions remember exactly that schema, and a temporary table never shadows one of them.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

DO $$
BEGIN
    IF current_setting('server_version_num')::integer < 150000 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'PostgreSQL 15 or later is required';
    END IF;
    -- Identities are compared and hashed as UTF-8.
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'the database must be encoded in UTF8';
    END IF;
END
$$;

-- Refuses whatever fired it. The trigger's name is reported as the violated constraint.
CREATE FUNCTION countersign_refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = format('%s on %I is refused', TG_OP, TG_TABLE_NAME),
        SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME,
        CONSTRAINT = TG_NAME;
END
$$;

CREATE TABLE transaction_resource (
    only_row    boolean     NOT NULL DEFAULT true,
    resource_id varchar(64) COLLATE "C" NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT transaction_resource_pkey PRIMARY KEY (only_row),
    CONSTRAINT transaction_resource_only_row CHECK (only_row),
    CONSTRAINT transaction_resource_grammar
        CHECK (resource_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$')
);

INSERT INTO transaction_resource (resource_id) VALUES (replace(gen_random_uuid()::text, '-', ''));

CREATE TRIGGER transaction_resource_fixed
    BEFORE UPDATE OR DELETE OR TRUNCATE ON transaction_resource
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();
