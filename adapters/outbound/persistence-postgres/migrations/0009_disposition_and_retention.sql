-- What operators did to deliveries, what the law keeps, and how resolved events leave
-- (requirement 004 §§19.4–19.6).

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- One row a disposition, written in the transaction that moves the delivery. The event's hashes and
-- ordering scope are copies, so that the row can be read without the event.
CREATE TABLE outbox_disposition_audit (
    disposition_id        bigint        GENERATED ALWAYS AS IDENTITY,
    event_id              varchar(96)   COLLATE "C" NOT NULL,
    delivery_generation   bigint        NOT NULL,
    next_generation       bigint,
    expected_row_version  bigint        NOT NULL,
    disposition           varchar(32)   COLLATE "C" NOT NULL,
    from_state            varchar(32)   COLLATE "C" NOT NULL,
    to_state              varchar(32)   COLLATE "C" NOT NULL,
    operator              varchar(128)  COLLATE "C" NOT NULL,
    reason_code           varchar(64)   COLLATE "C" NOT NULL,
    reason                varchar(1000) NOT NULL,
    reference             varchar(128)  COLLATE "C" NOT NULL,
    approval              varchar(128)  COLLATE "C",
    compensating_event_id varchar(96)   COLLATE "C",
    partition_key_text    varchar(64)   COLLATE "C" NOT NULL,
    envelope_sha256       bytea         NOT NULL,
    payload_schema_hash   bytea         NOT NULL,
    recorded_at           timestamptz   NOT NULL,

    CONSTRAINT outbox_disposition_pkey PRIMARY KEY (disposition_id),
    CONSTRAINT outbox_disposition_delivery_fkey FOREIGN KEY (event_id, delivery_generation)
        REFERENCES outbox_delivery (event_id, delivery_generation),
    CONSTRAINT outbox_disposition_next_fkey FOREIGN KEY (event_id, next_generation)
        REFERENCES outbox_delivery (event_id, delivery_generation),
    CONSTRAINT outbox_disposition_compensation_fkey FOREIGN KEY (compensating_event_id)
        REFERENCES outbox_event (event_id),
    -- The transition table of the core, disposition by disposition.
    CONSTRAINT outbox_disposition_states CHECK (CASE disposition
        WHEN 'HOLD' THEN
            from_state IN ('READY', 'RETRY_WAIT', 'CLAIMED', 'EXHAUSTED') AND to_state = 'HOLD'
        WHEN 'SKIP_WITH_GAP' THEN from_state IN ('EXHAUSTED', 'HOLD') AND to_state = 'SKIPPED'
        WHEN 'COMPENSATE' THEN from_state IN ('EXHAUSTED', 'HOLD') AND to_state = 'COMPENSATED'
        WHEN 'ACCEPT_LEGACY' THEN
            from_state = 'LEGACY_RECORDED_UNVERIFIED' AND to_state = 'LEGACY_ACCEPTED_UNVERIFIED'
        WHEN 'REMEDIATE_AND_REQUEUE' THEN
            from_state IN ('EXHAUSTED', 'HOLD') AND to_state = 'READY'
        ELSE false
    END),
    CONSTRAINT outbox_disposition_requeue CHECK (
        (disposition = 'REMEDIATE_AND_REQUEUE') = (next_generation IS NOT NULL)
        AND next_generation > delivery_generation
    ),
    CONSTRAINT outbox_disposition_approval CHECK (
        (disposition IN ('SKIP_WITH_GAP', 'COMPENSATE', 'ACCEPT_LEGACY')) = (approval IS NOT NULL)
    ),
    CONSTRAINT outbox_disposition_compensation CHECK (
        (disposition = 'COMPENSATE') = (compensating_event_id IS NOT NULL)
        AND compensating_event_id IS DISTINCT FROM event_id
    ),
    CONSTRAINT outbox_disposition_actor CHECK (
        operator ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        AND reason_code ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        AND reference ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        AND (approval IS NULL OR approval ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$')
        AND reason ~ '\S' AND reason !~ '[\u0001-\u001f\u007f-\u009f]'
    ),
    CONSTRAINT outbox_disposition_hashes CHECK (
        octet_length(envelope_sha256) = 32 AND octet_length(payload_schema_hash) = 32
    )
);

CREATE INDEX outbox_disposition_event
    ON outbox_disposition_audit (event_id, delivery_generation);
CREATE INDEX outbox_disposition_compensating
    ON outbox_disposition_audit (compensating_event_id) WHERE compensating_event_id IS NOT NULL;

CREATE FUNCTION outbox_disposition_stamp() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    NEW.recorded_at := clock_timestamp();
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_disposition_recorded_at
    BEFORE INSERT ON outbox_disposition_audit
    FOR EACH ROW EXECUTE FUNCTION outbox_disposition_stamp();

-- An event under a legal hold is kept whatever its age. A hold is placed and lifted, never changed;
-- both are audited in outbox_authority_audit, in the same statement.
CREATE TABLE outbox_legal_hold (
    event_id    varchar(96)   COLLATE "C" NOT NULL,
    placed_at   timestamptz   NOT NULL DEFAULT clock_timestamp(),
    placed_by   varchar(128)  COLLATE "C" NOT NULL,
    reason_code varchar(64)   COLLATE "C" NOT NULL,
    reason      varchar(1000) NOT NULL,
    reference   varchar(128)  COLLATE "C" NOT NULL,
    CONSTRAINT outbox_legal_hold_pkey PRIMARY KEY (event_id),
    CONSTRAINT outbox_legal_hold_event_fkey FOREIGN KEY (event_id)
        REFERENCES outbox_event (event_id)
);

CREATE TRIGGER outbox_legal_hold_fixed
    BEFORE UPDATE OR TRUNCATE ON outbox_legal_hold
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();

-- A scope is released, and a generation superseded, only with its audit row: whoever wrote the
-- update. Checked at the commit.
CREATE FUNCTION outbox_delivery_needs_audit() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM 1
       FROM outbox_disposition_audit AS audit
      WHERE audit.event_id = NEW.event_id
        AND audit.delivery_generation = NEW.delivery_generation
        AND audit.expected_row_version = OLD.row_version
        AND CASE NEW.authority_status
            WHEN 'SUPERSEDED' THEN
                audit.disposition = 'REMEDIATE_AND_REQUEUE'
                AND audit.next_generation = NEW.superseded_by_generation
            ELSE audit.from_state = OLD.state AND audit.to_state = NEW.state
        END;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'an operator''s disposition needs its audit row',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_disposition_audited';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER outbox_delivery_disposition_audited
    AFTER UPDATE ON outbox_delivery
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    WHEN (
        NEW.authority_status = 'SUPERSEDED'
        OR NEW.state IN ('SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
    )
    EXECUTE FUNCTION outbox_delivery_needs_audit();

-- A generation begins READY. Only the first one of a migrated record may begin elsewhere, and never
-- as recorded: what the earlier system called published has no acknowledgement here.
CREATE TRIGGER outbox_delivery_begins
    BEFORE INSERT ON outbox_delivery
    FOR EACH ROW
    WHEN (NOT (
        NEW.state = 'READY'
        OR (
            NEW.delivery_generation = 1
            AND (
                NEW.state IN ('RETRY_WAIT', 'EXHAUSTED', 'HOLD')
                OR (
                    NEW.state = 'LEGACY_RECORDED_UNVERIFIED'
                    AND num_nonnulls(
                        NEW.last_outcome_certainty, NEW.provider_generation,
                        NEW.provider_record_reference
                    ) = 0
                )
            )
        )
    ))
    EXECUTE FUNCTION countersign_refuse_change();

-- Deletes pass only in a transaction that says it applies retention; who may delete at all is a
-- matter of privileges. Updates and TRUNCATE stay refused.
CREATE FUNCTION countersign_refuse_unless_reaping() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND coalesce(current_setting('countersign.reaper', true), '') = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'restrict_violation',
        MESSAGE = format('%s on %I is refused', TG_OP, TG_TABLE_NAME),
        SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME,
        CONSTRAINT = TG_NAME;
END
$$;

-- And even there only what belongs to a resolved event that no legal hold keeps; the event itself
-- once no delivery is left. Nothing cascades. The event of a CDC epoch is not removed here.
CREATE FUNCTION countersign_refuse_unresolved() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    refused boolean;
BEGIN
    IF TG_TABLE_NAME = 'outbox_event' THEN
        refused := OLD.dispatch_authority = 'CDC' OR EXISTS (
            SELECT 1 FROM outbox_delivery AS d WHERE d.event_id = OLD.event_id
        );
    ELSE
        refused := EXISTS (
            SELECT 1
              FROM outbox_delivery AS d
             WHERE d.event_id = OLD.event_id
               AND d.authority_status = 'CURRENT'
               AND d.state NOT IN (
                   'DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED'
               )
        );
    END IF;
    IF refused OR EXISTS (
        SELECT 1 FROM outbox_legal_hold AS held WHERE held.event_id = OLD.event_id
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'restrict_violation',
            MESSAGE = format('%s on %I is refused', TG_OP, TG_TABLE_NAME),
            SCHEMA = TG_TABLE_SCHEMA,
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = TG_NAME;
    END IF;
    RETURN OLD;
END
$$;

DROP TRIGGER outbox_event_insert_only ON outbox_event;
CREATE TRIGGER outbox_event_insert_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox_event
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_unless_reaping();
CREATE TRIGGER outbox_event_resolved
    BEFORE DELETE ON outbox_event
    FOR EACH ROW EXECUTE FUNCTION countersign_refuse_unresolved();

DROP TRIGGER outbox_delivery_kept ON outbox_delivery;
CREATE TRIGGER outbox_delivery_kept
    BEFORE DELETE OR TRUNCATE ON outbox_delivery
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_unless_reaping();
CREATE TRIGGER outbox_delivery_resolved
    BEFORE DELETE ON outbox_delivery
    FOR EACH ROW EXECUTE FUNCTION countersign_refuse_unresolved();

DROP TRIGGER outbox_observation_insert_only ON outbox_delivery_attempt_observation;
CREATE TRIGGER outbox_observation_insert_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox_delivery_attempt_observation
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_unless_reaping();
CREATE TRIGGER outbox_observation_resolved
    BEFORE DELETE ON outbox_delivery_attempt_observation
    FOR EACH ROW EXECUTE FUNCTION countersign_refuse_unresolved();

CREATE TRIGGER outbox_disposition_insert_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox_disposition_audit
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_unless_reaping();
CREATE TRIGGER outbox_disposition_resolved
    BEFORE DELETE ON outbox_disposition_audit
    FOR EACH ROW EXECUTE FUNCTION countersign_refuse_unresolved();
