-- An example of roles for a store, to be run by its owner after the migrations, with the store's
-- schema first in the search path. Logins become members of these groups.
--
-- Nobody but the owner may UPDATE, DELETE or TRUNCATE an event or an observation; the triggers
-- refuse it to the owner as well. What is resolved and old enough is removed by the maintenance
-- role alone.

CREATE ROLE countersign_append NOLOGIN;
CREATE ROLE countersign_relay NOLOGIN;
CREATE ROLE countersign_read NOLOGIN;
CREATE ROLE countersign_authority NOLOGIN;
CREATE ROLE countersign_operator NOLOGIN;
CREATE ROLE countersign_maintenance NOLOGIN;

-- A service that appends, and one that consumes. FOR SHARE asks for UPDATE on some column of the
-- epoch; its identity cannot be changed.
GRANT SELECT ON transaction_resource TO countersign_append, countersign_relay;
GRANT SELECT, UPDATE (row_version) ON outbox_publication_epoch
    TO countersign_append, countersign_relay;
-- Every business write asks whether it is let in. FOR KEY SHARE asks for UPDATE on some column as
-- well; a change of the row version alone is no transition, so the row cannot be changed with it.
GRANT SELECT, UPDATE (row_version) ON write_admission TO countersign_append;
GRANT SELECT, INSERT ON outbox_event TO countersign_append;
GRANT SELECT, INSERT ON outbox_delivery TO countersign_append;
GRANT SELECT, INSERT ON inbox_consumption TO countersign_append;

-- The relay. It reads the claim gate FOR SHARE, and can neither raise nor lift a fence.
GRANT SELECT, UPDATE (row_version) ON outbox_claim_gate TO countersign_relay;
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

-- Who may write, who may publish, and what nobody may claim. LOCK TABLE asks for UPDATE on the
-- table; the triggers admit the protocol's transitions alone.
GRANT SELECT, UPDATE ON write_admission, outbox_claim_gate TO countersign_authority;
GRANT SELECT, INSERT, UPDATE ON outbox_publication_epoch TO countersign_authority;
GRANT SELECT, INSERT ON outbox_authority_audit TO countersign_authority;

-- Dispositions and legal holds: no document. A lapsed claim's token closes its attempt.
GRANT SELECT, UPDATE (row_version) ON outbox_publication_epoch TO countersign_operator;
GRANT SELECT (
    event_id, partition_key_text, aggregate_sequence, aggregate_event_index, ordering_required,
    destination_binding_revision, logical_destination_id, dispatch_authority, created_at,
    envelope_sha256, payload_schema_hash
) ON outbox_event TO countersign_operator;
GRANT SELECT, INSERT, UPDATE ON outbox_delivery TO countersign_operator;
GRANT SELECT, INSERT ON outbox_delivery_attempt_observation, outbox_disposition_audit
    TO countersign_operator;
GRANT SELECT, INSERT, DELETE ON outbox_legal_hold TO countersign_operator;
GRANT INSERT ON outbox_authority_audit TO countersign_operator;
GRANT SELECT ON outbox_disposition_audit, outbox_legal_hold TO countersign_read;

-- Retention. FOR UPDATE asks for UPDATE on some column; the triggers refuse any of an event, and of
-- a delivery any that is no transition.
GRANT SELECT (event_id, created_at, dispatch_authority), UPDATE (ordering_required), DELETE
    ON outbox_event TO countersign_maintenance;
GRANT SELECT (event_id, delivery_generation, authority_status, state, terminal_at),
    UPDATE (updated_at), DELETE ON outbox_delivery TO countersign_maintenance;
GRANT SELECT (event_id, delivery_generation, publication_attempt_id, observation_type), DELETE
    ON outbox_delivery_attempt_observation TO countersign_maintenance;
GRANT SELECT (event_id, compensating_event_id), DELETE ON outbox_disposition_audit
    TO countersign_maintenance;
GRANT SELECT (event_id) ON outbox_legal_hold TO countersign_maintenance;
