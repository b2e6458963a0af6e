CREATE TABLE IF NOT EXISTS portfolio_read_model (
    aggregate_type text COLLATE "C" NOT NULL,
    aggregate_id   text COLLATE "C" NOT NULL,
    title          text,
    title_sequence bigint NOT NULL,
    status         text   NOT NULL,
    event_count    bigint NOT NULL CHECK (event_count >= 1),
    last_sequence  bigint NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id)
)
