-- An example of roles for a store, to be run by its owner after the migrations, with the store's
-- schema first in the search path. Logins become members of these groups.
--
-- Nobody but the owner may UPDATE, DELETE or TRUNCATE an event or an observation; the triggers
-- refuse it to the owner as well.

CREATE ROLE countersign_append NOLOGIN;
CREATE ROLE countersign_relay NOLOGIN;
CREATE ROLE countersign_read NOLOGIN;

-- A service that appends, and one that consumes. FOR SHARE asks for UPDATE on some column of the
-- epoch; its identity cannot be changed.
GRANT SELECT ON transaction_resource TO countersign_append, countersign_relay;
GRANT SELECT, UPDATE (row_version) ON outbox_publication_epoch
    TO countersign_append, countersign_relay;
GRANT SELECT, INSERT ON outbox_event TO countersign_append;
GRANT SELECT, INSERT ON outbox_delivery TO countersign_append;
GRANT SELECT, INSERT ON inbox_consumption TO countersign_append;

-- The relay.
GRANT SELECT ON outbox_event TO countersign_relay;
GRANT SELECT, UPDATE ON outbox_delivery TO countersign_relay;
GRANT SELECT, INSERT ON outbox_delivery_attempt_observation TO countersign_relay;

-- Reads for people: no document, no claim token.
GRANT SELECT (
    event_id, contract_id, payload_version, logical_destination_id, destination_binding_revision,
    aggregate_type, aggregate_sequence, aggregate_event_index, created_at, envelope_sha256,
    publication_epoch, dispatch_authority
) ON outbox_event TO countersign_read;
GRANT SELECT (
    event_id, delivery_generation, authority_status, state, claim_count,
    publication_attempt_count, next_attempt_at, last_outcome_certainty, last_failure_class,
    last_failure_stage, provider_record_reference, delivery_recorded_at, terminal_at, created_at,
    automatic_attempt_deadline, updated_at
) ON outbox_delivery TO countersign_read;
