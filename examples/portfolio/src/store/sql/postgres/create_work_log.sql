CREATE TABLE IF NOT EXISTS portfolio_work_log (
    work_log_id      text COLLATE "C" NOT NULL PRIMARY KEY,
    version          bigint  NOT NULL CHECK (version >= 1),
    title            text    NOT NULL,
    minutes          bigint  NOT NULL,
    tags             text    NOT NULL,
    status           text CHECK (status IN ('finished', 'partly-finished', 'abandoned')),
    minutes_spent    bigint,
    follow_up_needed boolean,
    CHECK ((status IS NULL) = (minutes_spent IS NULL)),
    CHECK ((status IS NULL) = (follow_up_needed IS NULL))
)
