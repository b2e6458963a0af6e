-- One row per consumer and event (requirement 004 §25.1), committed with the consumer's effect.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE inbox_consumption (
    consumer_id     varchar(128) COLLATE "C" NOT NULL,
    event_id        varchar(96)  COLLATE "C" NOT NULL,
    envelope_sha256 bytea        NOT NULL,
    applied_at      timestamptz  NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT inbox_consumption_pkey PRIMARY KEY (consumer_id, event_id),
    CONSTRAINT inbox_consumption_consumer_grammar
        CHECK (consumer_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT inbox_consumption_event_grammar
        CHECK (event_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT inbox_consumption_hash CHECK (octet_length(envelope_sha256) = 32)
);
