-- Who may write, who may publish, and what nobody may claim (requirement 004 §§18.6, 27.1, 30.5).

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Business write transactions read this row FOR KEY SHARE and go on in OPEN alone. A freeze first
-- announces itself by a plain UPDATE, which those locks do not hold up, and then waits for them by
-- SELECT … FOR UPDATE.
CREATE TABLE write_admission (
    only_row    boolean     NOT NULL DEFAULT true,
    state       varchar(16) COLLATE "C" NOT NULL,
    generation  bigint      NOT NULL,
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    row_version bigint      NOT NULL DEFAULT 1,
    CONSTRAINT write_admission_pkey PRIMARY KEY (only_row),
    CONSTRAINT write_admission_only_row CHECK (only_row),
    CONSTRAINT write_admission_state CHECK (state IN ('OPEN', 'FREEZING', 'FROZEN')),
    CONSTRAINT write_admission_positive CHECK (generation >= 1 AND row_version >= 1)
);

INSERT INTO write_admission (state, generation) VALUES ('OPEN', 1);

CREATE TRIGGER write_admission_kept
    BEFORE DELETE OR TRUNCATE ON write_admission
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();

-- The transition table of the core.
CREATE TRIGGER write_admission_transition
    BEFORE UPDATE ON write_admission
    FOR EACH ROW
    WHEN (NOT (
        NEW.row_version = OLD.row_version + 1
        AND CASE OLD.state
            WHEN 'OPEN' THEN NEW.state = 'FREEZING' AND NEW.generation = OLD.generation
            WHEN 'FREEZING' THEN
                NEW.state IN ('FROZEN', 'OPEN') AND NEW.generation = OLD.generation + 1
            ELSE NEW.state = 'OPEN' AND NEW.generation = OLD.generation + 1
        END
    ))
    EXECUTE FUNCTION countersign_refuse_change();

-- The start of every business write transaction; fits into the message that begins it. Only OPEN is
-- locked: a writer that is refused must not stand in a freeze's way. `CS001` is Countersign's own
-- SQLSTATE for a write that is not admitted.
CREATE FUNCTION countersign_admit_write() RETURNS void
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    found_state text;
BEGIN
    LOOP
        PERFORM 1 FROM write_admission WHERE state = 'OPEN' FOR KEY SHARE;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT state INTO found_state FROM write_admission;
        -- OPEN here means that it was opened since the first look.
        IF found_state IS DISTINCT FROM 'OPEN' THEN
            RAISE EXCEPTION USING
                ERRCODE = 'CS001',
                MESSAGE = 'business writes are not admitted',
                TABLE = 'write_admission',
                CONSTRAINT = coalesce(found_state, 'MISSING');
        END IF;
    END LOOP;
END
$$;

-- What no worker may claim. The sets stand on the one row, so that whoever waited for its lock
-- reads them as they are then: Tx B reads it FOR SHARE; raising a fence locks the table, whose queue
-- is fair, where a row's sharers would let each other in for ever.
CREATE TABLE outbox_claim_gate (
    only_row     boolean NOT NULL DEFAULT true,
    everything   boolean NOT NULL DEFAULT false,
    destinations text[]  COLLATE "C" NOT NULL DEFAULT '{}',
    scopes       text[]  COLLATE "C" NOT NULL DEFAULT '{}',
    events       text[]  COLLATE "C" NOT NULL DEFAULT '{}',
    row_version  bigint  NOT NULL DEFAULT 1,
    CONSTRAINT outbox_claim_gate_pkey PRIMARY KEY (only_row),
    CONSTRAINT outbox_claim_gate_only_row CHECK (only_row),
    CONSTRAINT outbox_claim_gate_bound CHECK (
        cardinality(destinations) + cardinality(scopes) + cardinality(events) <= 256
    )
);

INSERT INTO outbox_claim_gate DEFAULT VALUES;

CREATE TRIGGER outbox_claim_gate_kept
    BEFORE DELETE OR TRUNCATE ON outbox_claim_gate
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();

-- Who changed any of it, and why.
CREATE TABLE outbox_authority_audit (
    audit_id    bigint       GENERATED ALWAYS AS IDENTITY,
    action      varchar(32)  COLLATE "C" NOT NULL,
    subject     varchar(160) COLLATE "C" NOT NULL,
    operator    varchar(128) COLLATE "C" NOT NULL,
    reason_code varchar(64)  COLLATE "C" NOT NULL,
    reason      varchar(1000) NOT NULL,
    reference   varchar(128) COLLATE "C" NOT NULL,
    approval    varchar(128) COLLATE "C",
    recorded_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT outbox_authority_audit_pkey PRIMARY KEY (audit_id),
    CONSTRAINT outbox_authority_audit_action CHECK (action IN (
        'FREEZE_ANNOUNCED', 'FROZEN', 'FREEZE_TIMED_OUT', 'RESUMED', 'THAWED',
        'EPOCH_ACTIVATED', 'FENCE_RAISED', 'FENCE_LIFTED',
        'LEGAL_HOLD_PLACED', 'LEGAL_HOLD_LIFTED'
    ))
);

CREATE TRIGGER outbox_authority_audit_insert_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox_authority_audit
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();

-- An epoch is prepared, active once, and retired for ever.
CREATE TRIGGER outbox_publication_epoch_life
    BEFORE UPDATE ON outbox_publication_epoch
    FOR EACH ROW
    WHEN (NOT (
        NEW.state = OLD.state
        OR (OLD.state = 'PREPARED' AND NEW.state IN ('ACTIVE', 'RETIRED'))
        OR (OLD.state = 'ACTIVE' AND NEW.state = 'RETIRED')
    ))
    EXECUTE FUNCTION countersign_refuse_change();

-- An event belongs to the epoch that is ACTIVE when it is inserted. Our own append holds that row
-- already; anybody else's insert waits for an activation here as the append does.
CREATE OR REPLACE FUNCTION outbox_event_stamp() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM 1
       FROM outbox_publication_epoch
      WHERE epoch_id = NEW.publication_epoch
        AND authority = NEW.dispatch_authority
        AND state = 'ACTIVE'
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'an event belongs to the active publication epoch',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_event_active_epoch';
    END IF;
    NEW.created_at := clock_timestamp();
    RETURN NEW;
END
$$;

-- An event that nobody would publish is refused when its transaction commits.
CREATE FUNCTION outbox_event_needs_delivery() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM 1 FROM outbox_delivery WHERE event_id = NEW.event_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'an event of a polling epoch needs a delivery',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_event_has_delivery';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER outbox_event_has_delivery
    AFTER INSERT ON outbox_event
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    WHEN (NEW.dispatch_authority = 'POLLING_V2')
    EXECUTE FUNCTION outbox_event_needs_delivery();
