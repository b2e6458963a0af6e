-- The append-only attempt journal (requirement 004 §18.3). It keeps a claim token's digest, never
-- the token.
--
-- `observation_sequence` counts from 1 within a generation. Whoever writes holds the generation's
-- row in `outbox_delivery` locked, so the next number is never guessed twice.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

CREATE TABLE outbox_delivery_attempt_observation (
    event_id                     varchar(96)  COLLATE "C" NOT NULL,
    delivery_generation          bigint       NOT NULL,
    publication_attempt_id       varchar(64)  COLLATE "C" NOT NULL,
    observation_sequence         bigint       NOT NULL,
    observation_type             varchar(32)  COLLATE "C" NOT NULL,
    claim_token_digest           bytea        NOT NULL,
    producer_generation          varchar(64)  COLLATE "C" NOT NULL,
    destination_binding_revision varchar(96)  COLLATE "C" NOT NULL,
    observed_at                  timestamptz  NOT NULL DEFAULT clock_timestamp(),
    acceptance_certainty         varchar(32)  COLLATE "C",
    retry_disposition            varchar(32)  COLLATE "C",
    failure_class                varchar(64)  COLLATE "C",
    failure_stage                varchar(64)  COLLATE "C",
    provider_record_reference    varchar(200) COLLATE "C",
    -- When the process saw the acknowledgement of its outcome, by its own clock.
    acknowledged_at              timestamptz,

    CONSTRAINT outbox_observation_pkey
        PRIMARY KEY (event_id, delivery_generation, observation_sequence),
    CONSTRAINT outbox_observation_attempt_key
        UNIQUE (event_id, delivery_generation, publication_attempt_id, observation_type),
    CONSTRAINT outbox_observation_delivery_fkey FOREIGN KEY (event_id, delivery_generation)
        REFERENCES outbox_delivery (event_id, delivery_generation),

    CONSTRAINT outbox_observation_attempt_grammar
        CHECK (publication_attempt_id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT outbox_observation_producer_grammar
        CHECK (producer_generation ~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'),
    CONSTRAINT outbox_observation_binding_grammar
        CHECK (destination_binding_revision ~ '^[a-z][a-z0-9.-]*$'),
    CONSTRAINT outbox_observation_sequence CHECK (observation_sequence >= 1),
    CONSTRAINT outbox_observation_digest CHECK (octet_length(claim_token_digest) = 32),
    CONSTRAINT outbox_observation_certainty CHECK (acceptance_certainty IN (
        'NOT_ACCEPTED', 'ACCEPTED', 'INDETERMINATE', 'ACCEPTED_MISMATCH'
    )),
    CONSTRAINT outbox_observation_disposition CHECK (retry_disposition IN (
        'NO_RETRY', 'RETRY_WITHIN_BUDGET', 'STOP_PROVIDER', 'OPERATOR_HOLD'
    )),
    CONSTRAINT outbox_observation_failure CHECK (
        failure_class ~ '^[A-Z][A-Z_]*$' AND failure_stage ~ '^[A-Z][A-Z_]*$'
    ),
    CONSTRAINT outbox_observation_reference
        CHECK (provider_record_reference ~ '^[\x20-\x7e]+$'),
    CONSTRAINT outbox_observation_shape CHECK (CASE observation_type
        WHEN 'ATTEMPT_ADMITTED' THEN num_nonnulls(
            acceptance_certainty, retry_disposition, failure_class, failure_stage,
            provider_record_reference, acknowledged_at
        ) = 0
        WHEN 'OUTCOME_OBSERVED' THEN
            acceptance_certainty IS NOT NULL
            AND retry_disposition IS NOT NULL
            AND (failure_class IS NULL) = (failure_stage IS NULL)
            AND (acceptance_certainty = 'ACCEPTED') = (failure_class IS NULL)
            AND (provider_record_reference IS NULL) = (acknowledged_at IS NULL)
        WHEN 'LATE_ACK_OBSERVED' THEN
            acceptance_certainty IS NOT NULL
            AND acceptance_certainty IN ('ACCEPTED', 'ACCEPTED_MISMATCH')
            AND provider_record_reference IS NOT NULL
            AND num_nonnulls(failure_class, failure_stage, acknowledged_at) = 0
        ELSE false
    END)
);

-- An attempt id names one admission, whatever the event; the look-up after a lost commit reply
-- starts here.
CREATE UNIQUE INDEX outbox_observation_admission
    ON outbox_delivery_attempt_observation (publication_attempt_id)
    WHERE observation_type = 'ATTEMPT_ADMITTED';

CREATE TRIGGER outbox_observation_insert_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox_delivery_attempt_observation
    FOR EACH STATEMENT EXECUTE FUNCTION countersign_refuse_change();
