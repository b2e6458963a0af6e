CREATE TABLE IF NOT EXISTS portfolio_work_log (
    work_log_id      TEXT    NOT NULL PRIMARY KEY,
    version          INTEGER NOT NULL CHECK (version >= 1),
    title            TEXT    NOT NULL,
    minutes          INTEGER NOT NULL,
    tags             TEXT    NOT NULL,
    status           TEXT CHECK (status IN ('finished', 'partly-finished', 'abandoned')),
    minutes_spent    INTEGER,
    follow_up_needed INTEGER CHECK (follow_up_needed IN (0, 1)),
    CHECK ((status IS NULL) = (minutes_spent IS NULL)),
    CHECK ((status IS NULL) = (follow_up_needed IS NULL))
) STRICT
