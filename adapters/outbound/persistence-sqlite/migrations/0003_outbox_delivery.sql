-- Delivery control (requirement 004 §18.2) with immutable copies of what ordering and claims read.

CREATE TABLE outbox_delivery (
    event_id                     TEXT    NOT NULL REFERENCES outbox_event (event_id),
    delivery_generation          INTEGER NOT NULL CHECK (delivery_generation >= 1),
    authority_status             TEXT    NOT NULL
        CHECK (authority_status IN ('CURRENT', 'SUPERSEDED')),
    superseded_by_generation     INTEGER,
    dispatch_profile_id          TEXT    NOT NULL
        CHECK (length(dispatch_profile_id) BETWEEN 1 AND 96
            AND dispatch_profile_id GLOB '[A-Za-z0-9]*'
            AND dispatch_profile_id NOT GLOB '*[^A-Za-z0-9._:-]*'),
    destination_binding_revision TEXT    NOT NULL,
    state                        TEXT    NOT NULL
        CHECK (state IN ('READY', 'CLAIMED', 'RETRY_WAIT', 'DELIVERY_RECORDED', 'EXHAUSTED',
            'HOLD', 'SKIPPED', 'COMPENSATED', 'LEGACY_RECORDED_UNVERIFIED',
            'LEGACY_ACCEPTED_UNVERIFIED')),
    claim_count                  INTEGER NOT NULL CHECK (claim_count >= 0),
    publication_attempt_count    INTEGER NOT NULL
        CHECK (publication_attempt_count BETWEEN 0 AND claim_count),
    first_attempt_at             INTEGER,
    next_attempt_at              INTEGER,
    claim_token                  BLOB CHECK (length(claim_token) = 16),
    claim_owner                  TEXT CHECK (length(claim_owner) BETWEEN 1 AND 128),
    claim_until                  INTEGER,
    last_outcome_certainty       TEXT
        CHECK (last_outcome_certainty IN
            ('NOT_ACCEPTED', 'ACCEPTED', 'INDETERMINATE', 'ACCEPTED_MISMATCH')),
    last_failure_class           TEXT,
    last_failure_stage           TEXT,
    provider_generation          TEXT,
    provider_record_reference    TEXT CHECK (length(provider_record_reference) BETWEEN 1 AND 200),
    delivery_recorded_at         INTEGER,
    terminal_at                  INTEGER,
    row_version                  INTEGER NOT NULL CHECK (row_version >= 1),
    created_at                   INTEGER NOT NULL,
    automatic_attempt_deadline   INTEGER NOT NULL,
    updated_at                   INTEGER NOT NULL,
    partition_key_text           TEXT    NOT NULL,
    aggregate_sequence           INTEGER NOT NULL,
    aggregate_event_index        INTEGER NOT NULL,
    ordering_required            INTEGER NOT NULL CHECK (ordering_required IN (0, 1)),
    claim_partition              INTEGER NOT NULL CHECK (claim_partition BETWEEN 0 AND 255),
    -- When the row may next be claimed, whatever its state; NULL when no claim may come.
    claimable_at                 INTEGER GENERATED ALWAYS AS (
        CASE state
            WHEN 'READY' THEN created_at
            WHEN 'RETRY_WAIT' THEN next_attempt_at
            WHEN 'CLAIMED' THEN claim_until
        END
    ) VIRTUAL,
    PRIMARY KEY (event_id, delivery_generation),
    CHECK ((authority_status = 'SUPERSEDED') = (superseded_by_generation IS NOT NULL)),
    CHECK ((state = 'CLAIMED') = (claim_token IS NOT NULL)),
    CHECK ((state = 'CLAIMED') = (claim_owner IS NOT NULL)),
    CHECK ((state = 'CLAIMED') = (claim_until IS NOT NULL)),
    CHECK ((state = 'RETRY_WAIT') = (next_attempt_at IS NOT NULL)),
    CHECK ((state = 'DELIVERY_RECORDED') = (delivery_recorded_at IS NOT NULL)),
    CHECK (state <> 'DELIVERY_RECORDED' OR (
        last_outcome_certainty IS 'ACCEPTED' AND provider_record_reference IS NOT NULL
    ))
) STRICT;

CREATE UNIQUE INDEX outbox_delivery_one_current
    ON outbox_delivery (event_id) WHERE authority_status = 'CURRENT';

-- The oldest claimable rows first.
CREATE INDEX outbox_delivery_claimable
    ON outbox_delivery (claimable_at, event_id)
    WHERE authority_status = 'CURRENT' AND claimable_at IS NOT NULL;

-- The unresolved rows of a scope in their order: its first entry is the scope's head.
CREATE INDEX outbox_delivery_unresolved
    ON outbox_delivery (partition_key_text, aggregate_sequence, aggregate_event_index)
    WHERE authority_status = 'CURRENT'
        AND state NOT IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED');

CREATE TRIGGER outbox_delivery_is_never_replaced BEFORE INSERT ON outbox_delivery
WHEN EXISTS (
    SELECT 1
    FROM outbox_delivery AS other
    WHERE other.event_id = NEW.event_id
        AND (other.delivery_generation = NEW.delivery_generation
            OR (NEW.authority_status = 'CURRENT' AND other.authority_status = 'CURRENT'))
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery: the event has that generation or a CURRENT one');
END;

CREATE TRIGGER outbox_delivery_copies_its_event BEFORE INSERT ON outbox_delivery
WHEN NOT EXISTS (
    SELECT 1
    FROM outbox_event AS event
    WHERE event.event_id = NEW.event_id
        AND event.dispatch_authority = 'POLLING_V2'
        AND event.destination_binding_revision = NEW.destination_binding_revision
        AND event.partition_key_text = NEW.partition_key_text
        AND event.aggregate_sequence = NEW.aggregate_sequence
        AND event.aggregate_event_index = NEW.aggregate_event_index
        AND event.ordering_required = NEW.ordering_required
        AND NEW.claim_partition
            = 16 * (instr('0123456789abcdef', substr(event.partition_key_text, 1, 1)) - 1)
            + instr('0123456789abcdef', substr(event.partition_key_text, 2, 1)) - 1
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery: not a polling event, or a copy differs from it');
END;

CREATE TRIGGER outbox_delivery_keeps_what_is_immutable BEFORE UPDATE ON outbox_delivery
WHEN NEW.event_id <> OLD.event_id
    OR NEW.delivery_generation <> OLD.delivery_generation
    OR NEW.dispatch_profile_id <> OLD.dispatch_profile_id
    OR NEW.destination_binding_revision <> OLD.destination_binding_revision
    OR NEW.created_at <> OLD.created_at
    OR NEW.automatic_attempt_deadline <> OLD.automatic_attempt_deadline
    OR NEW.partition_key_text <> OLD.partition_key_text
    OR NEW.aggregate_sequence <> OLD.aggregate_sequence
    OR NEW.aggregate_event_index <> OLD.aggregate_event_index
    OR NEW.ordering_required <> OLD.ordering_required
    OR NEW.claim_partition <> OLD.claim_partition
    OR NEW.row_version <> OLD.row_version + 1
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery: an immutable column, or a row version out of step');
END;

-- The transition table of requirement 004 §18.5 and the authority hand-over of a requeue.
CREATE TRIGGER outbox_delivery_transition BEFORE UPDATE ON outbox_delivery
WHEN NOT (
    OLD.authority_status = 'CURRENT'
    AND CASE NEW.authority_status
        WHEN 'SUPERSEDED' THEN NEW.state = OLD.state AND OLD.state IN ('EXHAUSTED', 'HOLD')
        ELSE CASE OLD.state
            WHEN 'READY' THEN NEW.state IN ('CLAIMED', 'EXHAUSTED', 'HOLD')
            WHEN 'RETRY_WAIT' THEN NEW.state IN ('CLAIMED', 'EXHAUSTED', 'HOLD')
            WHEN 'CLAIMED' THEN NEW.state IN
                ('CLAIMED', 'DELIVERY_RECORDED', 'RETRY_WAIT', 'EXHAUSTED', 'HOLD')
            WHEN 'EXHAUSTED' THEN NEW.state IN ('HOLD', 'SKIPPED', 'COMPENSATED')
            WHEN 'HOLD' THEN NEW.state IN ('SKIPPED', 'COMPENSATED')
            WHEN 'LEGACY_RECORDED_UNVERIFIED' THEN NEW.state = 'LEGACY_ACCEPTED_UNVERIFIED'
            ELSE 0
        END
    END
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery: the protocol has no such transition');
END;

CREATE TRIGGER outbox_delivery_is_never_deleted BEFORE DELETE ON outbox_delivery
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery is not deleted');
END;

-- The append-only attempt journal (requirement 004 §18.3). A raw claim token is never written here.
CREATE TABLE outbox_delivery_attempt_observation (
    event_id                     TEXT    NOT NULL,
    delivery_generation          INTEGER NOT NULL,
    publication_attempt_id       TEXT    NOT NULL
        CHECK (length(publication_attempt_id) BETWEEN 1 AND 64),
    observation_sequence         INTEGER NOT NULL CHECK (observation_sequence >= 1),
    observation_type             TEXT    NOT NULL
        CHECK (observation_type IN ('ATTEMPT_ADMITTED', 'OUTCOME_OBSERVED', 'LATE_ACK_OBSERVED')),
    claim_token_digest           BLOB    NOT NULL CHECK (length(claim_token_digest) = 32),
    producer_generation          TEXT    NOT NULL CHECK (length(producer_generation) BETWEEN 1 AND 64),
    destination_binding_revision TEXT    NOT NULL,
    observed_at                  INTEGER NOT NULL,
    acceptance_certainty         TEXT
        CHECK (acceptance_certainty IN
            ('NOT_ACCEPTED', 'ACCEPTED', 'INDETERMINATE', 'ACCEPTED_MISMATCH')),
    retry_disposition            TEXT
        CHECK (retry_disposition IN
            ('NO_RETRY', 'RETRY_WITHIN_BUDGET', 'STOP_PROVIDER', 'OPERATOR_HOLD')),
    failure_class                TEXT,
    failure_stage                TEXT,
    provider_record_reference    TEXT CHECK (length(provider_record_reference) BETWEEN 1 AND 200),
    PRIMARY KEY (event_id, delivery_generation, observation_sequence),
    UNIQUE (event_id, delivery_generation, publication_attempt_id, observation_type),
    FOREIGN KEY (event_id, delivery_generation)
        REFERENCES outbox_delivery (event_id, delivery_generation),
    CHECK ((observation_type = 'ATTEMPT_ADMITTED') = (acceptance_certainty IS NULL)),
    CHECK ((observation_type = 'ATTEMPT_ADMITTED') = (retry_disposition IS NULL)),
    CHECK (observation_type <> 'LATE_ACK_OBSERVED' OR (
        acceptance_certainty IN ('ACCEPTED', 'ACCEPTED_MISMATCH')
        AND provider_record_reference IS NOT NULL AND failure_class IS NULL
    )),
    CHECK ((failure_class IS NULL) = (failure_stage IS NULL))
) STRICT;

-- An attempt is looked up by its id and its token's digest.
CREATE INDEX outbox_delivery_attempt_observation_attempt
    ON outbox_delivery_attempt_observation (publication_attempt_id, claim_token_digest)
    WHERE observation_type = 'ATTEMPT_ADMITTED';

CREATE TRIGGER outbox_delivery_attempt_observation_is_never_replaced
BEFORE INSERT ON outbox_delivery_attempt_observation
WHEN EXISTS (
    SELECT 1
    FROM outbox_delivery_attempt_observation AS other
    WHERE other.event_id = NEW.event_id
        AND other.delivery_generation = NEW.delivery_generation
        AND (other.observation_sequence = NEW.observation_sequence
            OR (other.publication_attempt_id = NEW.publication_attempt_id
                AND other.observation_type = NEW.observation_type))
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery_attempt_observation: that observation is there');
END;

CREATE TRIGGER outbox_delivery_attempt_observation_is_never_changed
BEFORE UPDATE ON outbox_delivery_attempt_observation
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery_attempt_observation is append-only');
END;

CREATE TRIGGER outbox_delivery_attempt_observation_is_never_deleted
BEFORE DELETE ON outbox_delivery_attempt_observation
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery_attempt_observation is append-only');
END;
