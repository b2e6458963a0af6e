-- One row per applied effect: consumer, effect generation and event.

CREATE TABLE inbox_consumption (
    consumer_id       TEXT    NOT NULL CHECK (length(consumer_id) BETWEEN 1 AND 128),
    effect_generation INTEGER NOT NULL DEFAULT 0 CHECK (effect_generation >= 0),
    event_id          TEXT    NOT NULL CHECK (length(event_id) BETWEEN 1 AND 96),
    document_sha256   BLOB    NOT NULL CHECK (length(document_sha256) = 32),
    created_at        INTEGER NOT NULL,
    PRIMARY KEY (consumer_id, effect_generation, event_id)
) STRICT, WITHOUT ROWID;
