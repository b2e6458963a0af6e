CREATE TABLE IF NOT EXISTS portfolio_read_model (
    aggregate_type TEXT    NOT NULL,
    aggregate_id   TEXT    NOT NULL,
    title          TEXT,
    title_sequence INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    event_count    INTEGER NOT NULL CHECK (event_count >= 1),
    last_sequence  INTEGER NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id)
) STRICT
