-- Who may write, what nobody may claim, what operators did, what the law keeps, and how resolved
-- events leave (requirement 004 §§18.6, 19.4–19.6, 27.1, 30.5). The file's single writer is the
-- fence: whoever changes one of these rows has no other write transaction beside it.

CREATE TABLE write_admission (
    only_row    INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    state       TEXT    NOT NULL CHECK (state IN ('OPEN', 'FREEZING', 'FROZEN')),
    generation  INTEGER NOT NULL CHECK (generation >= 1),
    row_version INTEGER NOT NULL DEFAULT 1 CHECK (row_version >= 1)
) STRICT;

INSERT INTO write_admission (only_row, state, generation) VALUES (1, 'OPEN', 1);

CREATE TRIGGER write_admission_is_written_once BEFORE INSERT ON write_admission
BEGIN
    SELECT RAISE(ABORT, 'write_admission is written once');
END;

CREATE TRIGGER write_admission_transition BEFORE UPDATE ON write_admission
WHEN NOT (
    NEW.row_version = OLD.row_version + 1
    AND CASE OLD.state
        WHEN 'OPEN' THEN NEW.state = 'FREEZING' AND NEW.generation = OLD.generation
        WHEN 'FREEZING' THEN
            NEW.state IN ('FROZEN', 'OPEN') AND NEW.generation = OLD.generation + 1
        ELSE NEW.state = 'OPEN' AND NEW.generation = OLD.generation + 1
    END
)
BEGIN
    SELECT RAISE(ABORT, 'write_admission: no such transition');
END;

CREATE TRIGGER write_admission_is_never_deleted BEFORE DELETE ON write_admission
BEGIN
    SELECT RAISE(ABORT, 'write_admission is not deleted');
END;

CREATE TABLE outbox_claim_fence (
    kind    TEXT NOT NULL CHECK (kind IN ('EVERYTHING', 'DESTINATION', 'ORDERING_SCOPE', 'EVENT')),
    subject TEXT NOT NULL CHECK ((kind = 'EVERYTHING') = (subject = '')),
    PRIMARY KEY (kind, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox_authority_audit (
    audit_id    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    action      TEXT    NOT NULL CHECK (length(action) BETWEEN 1 AND 32),
    subject     TEXT    NOT NULL,
    operator    TEXT    NOT NULL,
    reason_code TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    reference   TEXT    NOT NULL,
    approval    TEXT,
    recorded_at INTEGER NOT NULL
) STRICT;

CREATE TRIGGER outbox_authority_audit_is_never_changed BEFORE UPDATE ON outbox_authority_audit
BEGIN
    SELECT RAISE(ABORT, 'outbox_authority_audit is append-only');
END;

CREATE TRIGGER outbox_authority_audit_is_never_deleted BEFORE DELETE ON outbox_authority_audit
BEGIN
    SELECT RAISE(ABORT, 'outbox_authority_audit is append-only');
END;

CREATE TRIGGER outbox_publication_epoch_life BEFORE UPDATE ON outbox_publication_epoch
WHEN NOT (
    NEW.state = OLD.state
    OR (OLD.state = 'PREPARED' AND NEW.state IN ('ACTIVE', 'RETIRED'))
    OR (OLD.state = 'ACTIVE' AND NEW.state = 'RETIRED')
)
BEGIN
    SELECT RAISE(ABORT, 'an epoch is prepared, active once, and retired for ever');
END;

CREATE TABLE outbox_disposition_audit (
    disposition_id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    event_id              TEXT    NOT NULL,
    delivery_generation   INTEGER NOT NULL,
    next_generation       INTEGER,
    expected_row_version  INTEGER NOT NULL,
    disposition           TEXT    NOT NULL CHECK (disposition IN
        ('HOLD', 'SKIP_WITH_GAP', 'COMPENSATE', 'ACCEPT_LEGACY', 'REMEDIATE_AND_REQUEUE')),
    from_state            TEXT    NOT NULL,
    to_state              TEXT    NOT NULL,
    operator              TEXT    NOT NULL,
    reason_code           TEXT    NOT NULL,
    reason                TEXT    NOT NULL,
    reference             TEXT    NOT NULL,
    approval              TEXT,
    compensating_event_id TEXT    REFERENCES outbox_event (event_id),
    partition_key_text    TEXT    NOT NULL,
    envelope_sha256       BLOB    NOT NULL CHECK (length(envelope_sha256) = 32),
    payload_schema_hash   BLOB    NOT NULL CHECK (length(payload_schema_hash) = 32),
    recorded_at           INTEGER NOT NULL,
    FOREIGN KEY (event_id, delivery_generation)
        REFERENCES outbox_delivery (event_id, delivery_generation),
    CHECK ((disposition = 'REMEDIATE_AND_REQUEUE') = (next_generation IS NOT NULL)),
    CHECK ((disposition IN ('SKIP_WITH_GAP', 'COMPENSATE', 'ACCEPT_LEGACY'))
        = (approval IS NOT NULL)),
    CHECK ((disposition = 'COMPENSATE') = (compensating_event_id IS NOT NULL)),
    CHECK (compensating_event_id IS NOT event_id)
) STRICT;

CREATE INDEX outbox_disposition_audit_event
    ON outbox_disposition_audit (event_id, delivery_generation);
CREATE INDEX outbox_disposition_audit_compensating
    ON outbox_disposition_audit (compensating_event_id) WHERE compensating_event_id IS NOT NULL;

CREATE TABLE outbox_legal_hold (
    event_id  TEXT    NOT NULL PRIMARY KEY REFERENCES outbox_event (event_id),
    placed_at INTEGER NOT NULL
) STRICT;

-- The event that retention may remove now, with all that tells of it. It is written and removed in
-- the transaction that removes the event, by whoever applies retention, and names one event that
-- satisfies every condition but its age.
CREATE TABLE outbox_retention_permit (
    event_id TEXT NOT NULL PRIMARY KEY
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
)
BEGIN
    SELECT RAISE(ABORT, 'outbox_retention_permit: the event is unresolved or held');
END;

DROP TRIGGER outbox_event_is_never_deleted;
CREATE TRIGGER outbox_event_is_never_deleted BEFORE DELETE ON outbox_event
WHEN NOT EXISTS (SELECT 1 FROM outbox_retention_permit WHERE event_id = OLD.event_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_event is INSERT-only');
END;

DROP TRIGGER outbox_delivery_is_never_deleted;
CREATE TRIGGER outbox_delivery_is_never_deleted BEFORE DELETE ON outbox_delivery
WHEN NOT EXISTS (SELECT 1 FROM outbox_retention_permit WHERE event_id = OLD.event_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery is not deleted');
END;

DROP TRIGGER outbox_delivery_attempt_observation_is_never_deleted;
CREATE TRIGGER outbox_delivery_attempt_observation_is_never_deleted
BEFORE DELETE ON outbox_delivery_attempt_observation
WHEN NOT EXISTS (SELECT 1 FROM outbox_retention_permit WHERE event_id = OLD.event_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_delivery_attempt_observation is append-only');
END;

CREATE TRIGGER outbox_disposition_audit_is_never_changed BEFORE UPDATE ON outbox_disposition_audit
BEGIN
    SELECT RAISE(ABORT, 'outbox_disposition_audit is append-only');
END;

CREATE TRIGGER outbox_disposition_audit_is_never_deleted BEFORE DELETE ON outbox_disposition_audit
WHEN NOT EXISTS (SELECT 1 FROM outbox_retention_permit WHERE event_id = OLD.event_id)
BEGIN
    SELECT RAISE(ABORT, 'outbox_disposition_audit is append-only');
END;
