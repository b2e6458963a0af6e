-- The store's own identity, its clock and its publication epoch.

CREATE TABLE transaction_resource (
    only_row    INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    resource_id TEXT    NOT NULL
        CHECK (length(resource_id) = 32 AND resource_id NOT GLOB '*[^0-9a-f]*')
) STRICT;

INSERT INTO transaction_resource (only_row, resource_id) VALUES (1, lower(hex(randomblob(16))));

-- REPLACE deletes without a DELETE trigger, so the INSERT is refused as well.
CREATE TRIGGER transaction_resource_is_written_once BEFORE INSERT ON transaction_resource
BEGIN
    SELECT RAISE(ABORT, 'transaction_resource is written once');
END;

CREATE TRIGGER transaction_resource_is_never_changed BEFORE UPDATE ON transaction_resource
BEGIN
    SELECT RAISE(ABORT, 'transaction_resource is never changed');
END;

CREATE TRIGGER transaction_resource_is_never_deleted BEFORE DELETE ON transaction_resource
BEGIN
    SELECT RAISE(ABORT, 'transaction_resource is never deleted');
END;

-- The database clock: microseconds since 1970-01-01T00:00:00Z, in steps of one millisecond, which
-- is what SQLite knows; a Julian day keeps a millisecond exactly enough to be rounded back. It
-- stands still within one statement.
CREATE VIEW database_clock (now) AS
SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

CREATE TABLE outbox_publication_epoch (
    epoch_id        INTEGER NOT NULL PRIMARY KEY CHECK (epoch_id >= 1),
    authority       TEXT    NOT NULL CHECK (authority IN ('LEGACY_POLLING', 'POLLING_V2', 'CDC')),
    state           TEXT    NOT NULL CHECK (state IN ('PREPARED', 'ACTIVE', 'RETIRED')),
    source_boundary TEXT,
    settings_digest BLOB CHECK (length(settings_digest) = 32),
    activated_at    INTEGER,
    activated_by    TEXT,
    approved_by     TEXT,
    row_version     INTEGER NOT NULL DEFAULT 1 CHECK (row_version >= 1),
    CHECK (state = 'PREPARED' OR activated_at IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX outbox_publication_epoch_one_active
    ON outbox_publication_epoch (state) WHERE state = 'ACTIVE';

-- REPLACE would retire the ACTIVE epoch by deleting it.
CREATE TRIGGER outbox_publication_epoch_is_not_replaced BEFORE INSERT ON outbox_publication_epoch
WHEN EXISTS (
    SELECT 1
    FROM outbox_publication_epoch AS other
    WHERE other.epoch_id = NEW.epoch_id OR (NEW.state = 'ACTIVE' AND other.state = 'ACTIVE')
)
BEGIN
    SELECT RAISE(ABORT, 'an epoch is never replaced, and one is ACTIVE at a time');
END;

CREATE TRIGGER outbox_publication_epoch_keeps_its_identity BEFORE UPDATE ON outbox_publication_epoch
WHEN NEW.epoch_id <> OLD.epoch_id OR NEW.authority <> OLD.authority
BEGIN
    SELECT RAISE(ABORT, 'an epoch keeps its number and its authority');
END;

CREATE TRIGGER outbox_publication_epoch_is_never_deleted BEFORE DELETE ON outbox_publication_epoch
BEGIN
    SELECT RAISE(ABORT, 'an epoch is never deleted');
END;

INSERT INTO outbox_publication_epoch (epoch_id, authority, state, activated_at, activated_by)
SELECT 1, 'POLLING_V2', 'ACTIVE', clock.now, 'first-migration' FROM database_clock AS clock;
