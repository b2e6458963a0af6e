-- The control row of each delivery generation (requirement 004 §§18.2–18.6).
--
-- `blocks_scope` and `claimable` are derived from authority and state. The partial indexes rest on
-- them rather than on `state`, so that READY → CLAIMED → RETRY_WAIT touches no index.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE outbox_delivery (
    event_id                     varchar(96)  COLLATE "C" NOT NULL,
    delivery_generation          bigint       NOT NULL,
    authority_status             varchar(16)  COLLATE "C" NOT NULL,
    superseded_by_generation     bigint,
    dispatch_profile_id          varchar(96)  COLLATE "C" NOT NULL,
    destination_binding_revision varchar(96)  COLLATE "C" NOT NULL,
    state                        varchar(32)  COLLATE "C" NOT NULL,
    claim_count                  integer      NOT NULL DEFAULT 0,
    publication_attempt_count    integer      NOT NULL DEFAULT 0,
    first_attempt_at             timestamptz,
    next_attempt_at              timestamptz,
    claim_token                  bytea,
    claim_owner                  varchar(128) COLLATE "C",
    claim_until                  timestamptz,
    last_outcome_certainty       varchar(32)  COLLATE "C",
    last_failure_class           varchar(64)  COLLATE "C",
    last_failure_stage           varchar(64)  COLLATE "C",
    provider_generation          varchar(64)  COLLATE "C",
    provider_record_reference    varchar(200) COLLATE "C",
    delivery_recorded_at         timestamptz,
    terminal_at                  timestamptz,
    row_version                  bigint       NOT NULL DEFAULT 1,
    created_at                   timestamptz  NOT NULL DEFAULT clock_timestamp(),
    automatic_attempt_deadline   timestamptz  NOT NULL,
    updated_at                   timestamptz  NOT NULL DEFAULT clock_timestamp(),
    -- Immutable copies, so that the ordering gate reads one table.
    partition_key_text           varchar(64)  COLLATE "C" NOT NULL,
    aggregate_sequence           bigint       NOT NULL,
    aggregate_event_index        integer      NOT NULL,
    ordering_required            boolean      NOT NULL,
    claim_partition              smallint     NOT NULL,
    -- Derived.
    blocks_scope boolean NOT NULL GENERATED ALWAYS AS (
        authority_status = 'CURRENT' AND state IN (
            'READY', 'CLAIMED', 'RETRY_WAIT', 'EXHAUSTED', 'HOLD', 'LEGACY_RECORDED_UNVERIFIED'
        )
    ) STORED,
    claimable boolean NOT NULL GENERATED ALWAYS AS (
        authority_status = 'CURRENT' AND state IN ('READY', 'CLAIMED', 'RETRY_WAIT')
    ) STORED,

    CONSTRAINT outbox_delivery_pkey PRIMARY KEY (event_id, delivery_generation),
    CONSTRAINT outbox_delivery_event_fkey FOREIGN KEY (event_id)
        REFERENCES outbox_event (event_id),
    -- A requeue writes the old row before the new one.
    CONSTRAINT outbox_delivery_successor_fkey
        FOREIGN KEY (event_id, superseded_by_generation)
        REFERENCES outbox_delivery (event_id, delivery_generation)
        DEFERRABLE INITIALLY DEFERRED,

    CONSTRAINT outbox_delivery_generation CHECK (delivery_generation >= 1 AND row_version >= 1),
    CONSTRAINT outbox_delivery_authority CHECK (
        (authority_status = 'CURRENT' AND superseded_by_generation IS NULL)
        OR (
            authority_status = 'SUPERSEDED'
            AND superseded_by_generation IS NOT NULL
            AND superseded_by_generation > delivery_generation
        )
    ),
    CONSTRAINT outbox_delivery_profile_grammar
        CHECK (dispatch_profile_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT outbox_delivery_state CHECK (state IN (
        'READY', 'CLAIMED', 'RETRY_WAIT', 'DELIVERY_RECORDED', 'EXHAUSTED', 'HOLD', 'SKIPPED',
        'COMPENSATED', 'LEGACY_RECORDED_UNVERIFIED', 'LEGACY_ACCEPTED_UNVERIFIED'
    )),
    CONSTRAINT outbox_delivery_counts CHECK (
        claim_count >= 0
        AND publication_attempt_count BETWEEN 0 AND claim_count
        AND (publication_attempt_count > 0) = (first_attempt_at IS NOT NULL)
    ),
    CONSTRAINT outbox_delivery_claim CHECK (
        (state = 'CLAIMED') = (claim_token IS NOT NULL)
        AND (state = 'CLAIMED') = (claim_owner IS NOT NULL)
        AND (state = 'CLAIMED') = (claim_until IS NOT NULL)
        AND (state <> 'CLAIMED' OR claim_count > 0)
    ),
    CONSTRAINT outbox_delivery_claim_form CHECK (
        octet_length(claim_token) = 16 AND claim_owner ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
    ),
    CONSTRAINT outbox_delivery_due CHECK ((state = 'RETRY_WAIT') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT outbox_delivery_recorded CHECK (
        (state = 'DELIVERY_RECORDED') = (delivery_recorded_at IS NOT NULL)
        AND (
            state <> 'DELIVERY_RECORDED'
            OR (
                last_outcome_certainty IS NOT DISTINCT FROM 'ACCEPTED'
                AND provider_generation IS NOT NULL
                AND provider_record_reference IS NOT NULL
                AND publication_attempt_count > 0
            )
        )
    ),
    CONSTRAINT outbox_delivery_terminal CHECK (
        (state IN ('READY', 'CLAIMED', 'RETRY_WAIT')) = (terminal_at IS NULL)
    ),
    CONSTRAINT outbox_delivery_certainty CHECK (last_outcome_certainty IN (
        'NOT_ACCEPTED', 'ACCEPTED', 'INDETERMINATE', 'ACCEPTED_MISMATCH'
    )),
    CONSTRAINT outbox_delivery_failure CHECK (
        last_failure_class ~ '^[A-Z][A-Z_]*$' AND last_failure_stage ~ '^[A-Z][A-Z_]*$'
    ),
    CONSTRAINT outbox_delivery_failure_pair CHECK (
        (last_failure_class IS NULL) = (last_failure_stage IS NULL)
    ),
    CONSTRAINT outbox_delivery_provider_form CHECK (
        provider_generation ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        AND provider_record_reference ~ '^[\x20-\x7e]+$'
    ),
    CONSTRAINT outbox_delivery_partition CHECK (claim_partition BETWEEN 0 AND 255)
)
-- Room for the claim's and the outcome's update on the same page.
WITH (fillfactor = 70);

CREATE UNIQUE INDEX outbox_delivery_one_current
    ON outbox_delivery (event_id) WHERE authority_status = 'CURRENT';

-- The ordering gate: what of a scope is still open, in its total order.
CREATE INDEX outbox_delivery_open_scope
    ON outbox_delivery (partition_key_text, aggregate_sequence, aggregate_event_index)
    WHERE blocks_scope;

-- The scan for heads.
CREATE INDEX outbox_delivery_claimable
    ON outbox_delivery (created_at, event_id) WHERE claimable;

-- Takes the copies from the event; a value given by the writer must be the event's. The claim
-- partition is the first byte of the scope's key. The first generation is as old as its event.
CREATE FUNCTION outbox_delivery_copy_event() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    event record;
    partition smallint;
BEGIN
    SELECT e.partition_key_text, e.aggregate_sequence, e.aggregate_event_index,
           e.ordering_required, e.destination_binding_revision, e.dispatch_authority,
           e.created_at
      INTO event
      FROM outbox_event AS e
     WHERE e.event_id = NEW.event_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'foreign_key_violation',
            MESSAGE = 'a delivery needs its event',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_event_fkey';
    END IF;
    IF event.dispatch_authority = 'CDC' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'an event of a CDC epoch has no delivery',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_not_for_cdc';
    END IF;
    partition := get_byte(decode(left(event.partition_key_text, 2), 'hex'), 0);
    IF coalesce(NEW.partition_key_text, event.partition_key_text) <> event.partition_key_text
        OR coalesce(NEW.aggregate_sequence, event.aggregate_sequence) <> event.aggregate_sequence
        OR coalesce(NEW.aggregate_event_index, event.aggregate_event_index)
            <> event.aggregate_event_index
        OR coalesce(NEW.ordering_required, event.ordering_required) <> event.ordering_required
        OR coalesce(NEW.destination_binding_revision, event.destination_binding_revision)
            <> event.destination_binding_revision
        OR coalesce(NEW.claim_partition, partition) <> partition
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'a delivery must agree with its event',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_agrees_with_event';
    END IF;
    NEW.partition_key_text := event.partition_key_text;
    NEW.aggregate_sequence := event.aggregate_sequence;
    NEW.aggregate_event_index := event.aggregate_event_index;
    NEW.ordering_required := event.ordering_required;
    NEW.destination_binding_revision := event.destination_binding_revision;
    NEW.claim_partition := partition;
    NEW.updated_at := clock_timestamp();
    NEW.created_at :=
        CASE NEW.delivery_generation WHEN 1 THEN event.created_at ELSE NEW.updated_at END;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_delivery_from_event
    BEFORE INSERT ON outbox_delivery
    FOR EACH ROW EXECUTE FUNCTION outbox_delivery_copy_event();

-- The guards below cost nothing while nobody breaks them: their conditions are checked without
-- a call.

CREATE TRIGGER outbox_delivery_immutable
    BEFORE UPDATE ON outbox_delivery
    FOR EACH ROW
    WHEN (
        (
            OLD.event_id, OLD.delivery_generation, OLD.dispatch_profile_id,
            OLD.destination_binding_revision, OLD.created_at, OLD.automatic_attempt_deadline,
            OLD.partition_key_text, OLD.aggregate_sequence, OLD.aggregate_event_index,
            OLD.ordering_required, OLD.claim_partition
        ) IS DISTINCT FROM (
            NEW.event_id, NEW.delivery_generation, NEW.dispatch_profile_id,
            NEW.destination_binding_revision, NEW.created_at, NEW.automatic_attempt_deadline,
            NEW.partition_key_text, NEW.aggregate_sequence, NEW.aggregate_event_index,
            NEW.ordering_required, NEW.claim_partition
        )
    )
    EXECUTE FUNCTION countersign_refuse_change();

CREATE TRIGGER outbox_delivery_versioned
    BEFORE UPDATE ON outbox_delivery
    FOR EACH ROW
    WHEN (NEW.row_version <> OLD.row_version + 1)
    EXECUTE FUNCTION countersign_refuse_change();

-- The transition table of requirement 004 §18.5 and the authority hand-over of a requeue.
CREATE TRIGGER outbox_delivery_transition
    BEFORE UPDATE ON outbox_delivery
    FOR EACH ROW
    WHEN (NOT (
        OLD.authority_status = 'CURRENT'
        AND CASE NEW.authority_status
            WHEN 'SUPERSEDED' THEN NEW.state = OLD.state AND OLD.state IN ('EXHAUSTED', 'HOLD')
            ELSE CASE OLD.state
                WHEN 'READY' THEN NEW.state IN ('CLAIMED', 'EXHAUSTED', 'HOLD')
                WHEN 'RETRY_WAIT' THEN NEW.state IN ('CLAIMED', 'EXHAUSTED', 'HOLD')
                WHEN 'CLAIMED' THEN NEW.state IN (
                    'CLAIMED', 'DELIVERY_RECORDED', 'RETRY_WAIT', 'EXHAUSTED', 'HOLD'
                )
                WHEN 'EXHAUSTED' THEN NEW.state IN ('HOLD', 'SKIPPED', 'COMPENSATED')
                WHEN 'HOLD' THEN NEW.state IN ('SKIPPED', 'COMPENSATED')
                WHEN 'LEGACY_RECORDED_UNVERIFIED' THEN NEW.state = 'LEGACY_ACCEPTED_UNVERIFIED'
                ELSE false
            END
        END
    ))
    EXECUTE FUNCTION countersign_refuse_change();

-- A delivery that vanished would be an event that nobody publishes.
CREATE TRIGGER outbox_delivery_kept
    BEFORE DELETE OR TRUNCATE ON outbox_delivery
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();
