-- What the scan for heads rests on, and guards that are judged at the commit (requirement 004
-- §§17.2, 18.7, 19.4, 19.6, 27.1).

-- An immutable copy, so that a scan can give each destination its share.
DROP TRIGGER outbox_delivery_copies_its_event;
DROP TRIGGER outbox_delivery_keeps_what_is_immutable;
DROP TRIGGER outbox_delivery_transition;

ALTER TABLE outbox_delivery ADD COLUMN logical_destination_id TEXT NOT NULL DEFAULT '';

UPDATE outbox_delivery
SET logical_destination_id = event.logical_destination_id
FROM outbox_event AS event
WHERE event.event_id = outbox_delivery.event_id;

CREATE TRIGGER outbox_delivery_copies_its_event BEFORE INSERT ON outbox_delivery
WHEN NOT EXISTS (
    SELECT 1
    FROM outbox_event AS event
    WHERE event.event_id = NEW.event_id
        AND event.dispatch_authority = 'POLLING_V2'
        AND event.destination_binding_revision = NEW.destination_binding_revision
        AND event.logical_destination_id = NEW.logical_destination_id
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
    OR NEW.logical_destination_id <> OLD.logical_destination_id
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

-- The ordering gate and the scan for heads: what of a scope is still open, in its total order.
CREATE INDEX outbox_delivery_open_head
    ON outbox_delivery (
        logical_destination_id, partition_key_text, aggregate_sequence, aggregate_event_index
    )
    WHERE authority_status = 'CURRENT'
        AND state NOT IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED');

-- Events that wait for nobody.
CREATE INDEX outbox_delivery_open_tolerant
    ON outbox_delivery (
        logical_destination_id, partition_key_text, aggregate_sequence, aggregate_event_index
    )
    WHERE authority_status = 'CURRENT'
        AND ordering_required = 0
        AND state IN ('READY', 'RETRY_WAIT', 'CLAIMED');

-- The backlog by age.
CREATE INDEX outbox_delivery_open_age
    ON outbox_delivery (created_at)
    WHERE authority_status = 'CURRENT'
        AND state NOT IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED');

-- What retention may look at, the longest resolved first.
CREATE INDEX outbox_delivery_resolved
    ON outbox_delivery (terminal_at, event_id)
    WHERE authority_status = 'CURRENT'
        AND state IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED');

DROP INDEX outbox_delivery_claimable;
DROP INDEX outbox_delivery_unresolved;

-- SQLite has no deferred trigger, but it has deferred foreign keys. A row that refers to this table,
-- which never has one, may be there until the commit and not after it.
CREATE TABLE outbox_never (
    never INTEGER NOT NULL PRIMARY KEY CHECK (0)
) STRICT;

-- A polling event that still waits for its first delivery.
CREATE TABLE outbox_missing_delivery (
    event_id TEXT    NOT NULL PRIMARY KEY,
    never    INTEGER NOT NULL DEFAULT 1
        REFERENCES outbox_never (never) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

CREATE TRIGGER outbox_event_misses_its_delivery AFTER INSERT ON outbox_event
WHEN NEW.dispatch_authority = 'POLLING_V2'
BEGIN
    INSERT INTO outbox_missing_delivery (event_id) VALUES (NEW.event_id);
END;

CREATE TRIGGER outbox_delivery_is_there AFTER INSERT ON outbox_delivery
BEGIN
    DELETE FROM outbox_missing_delivery WHERE event_id = NEW.event_id;
END;

-- Taking the note away would be a way around it.
CREATE TRIGGER outbox_missing_delivery_is_kept BEFORE DELETE ON outbox_missing_delivery
WHEN NOT EXISTS (SELECT 1 FROM outbox_delivery AS delivery WHERE delivery.event_id = OLD.event_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_missing_delivery: the delivery is still missing');
END;

CREATE TRIGGER outbox_missing_delivery_is_never_changed BEFORE UPDATE ON outbox_missing_delivery
BEGIN
    SELECT RAISE(ABORT, 'outbox_missing_delivery is not changed');
END;

-- A permit to remove lasts no longer than its transaction, and is earned by what is resolved, has
-- no open attempt and is under no hold. The age is the caller's to judge.
DROP TABLE outbox_retention_permit;
CREATE TABLE outbox_retention_permit (
    event_id TEXT    NOT NULL PRIMARY KEY,
    never    INTEGER NOT NULL DEFAULT 1
        REFERENCES outbox_never (never) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

CREATE TRIGGER outbox_retention_permit_is_earned BEFORE INSERT ON outbox_retention_permit
WHEN NOT EXISTS (
    SELECT 1
    FROM outbox_delivery AS delivery
    WHERE delivery.event_id = NEW.event_id
        AND delivery.authority_status = 'CURRENT'
        AND delivery.state IN
            ('DELIVERY_RECORDED', 'SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
) OR EXISTS (
    SELECT 1 FROM outbox_legal_hold AS hold WHERE hold.event_id = NEW.event_id
) OR EXISTS (
    SELECT 1
    FROM outbox_disposition_audit AS audit
    WHERE audit.compensating_event_id = NEW.event_id
) OR EXISTS (
    SELECT 1
    FROM outbox_delivery_attempt_observation AS admitted
    WHERE admitted.event_id = NEW.event_id
        AND admitted.observation_type = 'ATTEMPT_ADMITTED'
        AND NOT EXISTS (
            SELECT 1
            FROM outbox_delivery_attempt_observation AS outcome
            WHERE outcome.event_id = admitted.event_id
                AND outcome.delivery_generation = admitted.delivery_generation
                AND outcome.publication_attempt_id = admitted.publication_attempt_id
                AND outcome.observation_type = 'OUTCOME_OBSERVED'
        )
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_retention_permit: the event is unresolved or kept');
END;

CREATE TRIGGER outbox_retention_permit_is_never_changed BEFORE UPDATE ON outbox_retention_permit
BEGIN
    SELECT RAISE(ABORT, 'outbox_retention_permit is not changed');
END;

-- A scope is released, and a generation superseded, only with its audit row, whoever writes the
-- update.
CREATE TRIGGER outbox_delivery_disposition_is_audited BEFORE UPDATE ON outbox_delivery
WHEN (
    NEW.authority_status = 'SUPERSEDED'
    OR NEW.state IN ('SKIPPED', 'COMPENSATED', 'LEGACY_ACCEPTED_UNVERIFIED')
) AND NOT EXISTS (
    SELECT 1
    FROM outbox_disposition_audit AS audit
    WHERE audit.event_id = OLD.event_id
        AND audit.delivery_generation = OLD.delivery_generation
        AND audit.expected_row_version = OLD.row_version
        AND CASE NEW.authority_status
            WHEN 'SUPERSEDED' THEN audit.next_generation = NEW.superseded_by_generation
            ELSE audit.from_state = OLD.state AND audit.to_state = NEW.state
        END
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery: a disposition without its audit row');
END;
