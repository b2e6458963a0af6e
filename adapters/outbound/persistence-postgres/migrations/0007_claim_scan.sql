-- What the scan for heads rests on: one probe a scope, destination by destination (requirement
-- 004 §§17.2, 18.7).
--
-- `claim_lane` is an immutable copy, the first byte of the SHA-256 of the destination, so that a
-- scan can give each destination its share. Neither index holds a column that a claim or a retry
-- changes, so READY → CLAIMED → RETRY_WAIT touches no index.

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

ALTER TABLE outbox_delivery ADD COLUMN claim_lane smallint;

ALTER TABLE outbox_delivery DISABLE TRIGGER USER;
UPDATE outbox_delivery AS d
   SET claim_lane = get_byte(sha256(convert_to(e.logical_destination_id, 'UTF8')), 0)
  FROM outbox_event AS e
 WHERE e.event_id = d.event_id;
ALTER TABLE outbox_delivery ENABLE TRIGGER USER;

-- The deferred foreign keys of the rows above are checked now, before the table changes again.
SET CONSTRAINTS ALL IMMEDIATE;

ALTER TABLE outbox_delivery
    ALTER COLUMN claim_lane SET NOT NULL,
    ADD CONSTRAINT outbox_delivery_lane CHECK (claim_lane BETWEEN 0 AND 255);

-- The ordering gate and the scan for heads: what of a scope is still open, in its total order.
CREATE INDEX outbox_delivery_open_head
    ON outbox_delivery
       (claim_lane, partition_key_text, aggregate_sequence, aggregate_event_index)
    WHERE blocks_scope;

-- Events that wait for nobody.
CREATE INDEX outbox_delivery_open_tolerant
    ON outbox_delivery
       (claim_lane, partition_key_text, aggregate_sequence, aggregate_event_index)
    WHERE claimable AND NOT ordering_required;

DROP INDEX outbox_delivery_open_scope;
DROP INDEX outbox_delivery_claimable;

-- An admission is unique by its attempt id already (outbox_observation_admission), whatever its
-- event; the other observations keep the key that held for all.
CREATE UNIQUE INDEX outbox_observation_outcome
    ON outbox_delivery_attempt_observation
       (event_id, delivery_generation, publication_attempt_id, observation_type)
    WHERE observation_type <> 'ATTEMPT_ADMITTED';

ALTER TABLE outbox_delivery_attempt_observation DROP CONSTRAINT outbox_observation_attempt_key;

CREATE OR REPLACE FUNCTION outbox_delivery_copy_event() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $$
DECLARE
    event record;
    partition smallint;
    lane smallint;
BEGIN
    SELECT e.partition_key_text, e.aggregate_sequence, e.aggregate_event_index,
           e.ordering_required, e.destination_binding_revision, e.dispatch_authority,
           e.logical_destination_id, e.created_at
      INTO event
      FROM outbox_event AS e
     WHERE e.event_id = NEW.event_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'foreign_key_violation',
            MESSAGE = 'a delivery needs its event',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_event_fkey';
    END IF;
    IF event.dispatch_authority = 'CDC' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'an event of a CDC epoch has no delivery',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_not_for_cdc';
    END IF;
    partition := get_byte(decode(left(event.partition_key_text, 2), 'hex'), 0);
    lane := get_byte(sha256(convert_to(event.logical_destination_id, 'UTF8')), 0);
    IF coalesce(NEW.partition_key_text, event.partition_key_text) <> event.partition_key_text
        OR coalesce(NEW.aggregate_sequence, event.aggregate_sequence) <> event.aggregate_sequence
        OR coalesce(NEW.aggregate_event_index, event.aggregate_event_index)
            <> event.aggregate_event_index
        OR coalesce(NEW.ordering_required, event.ordering_required) <> event.ordering_required
        OR coalesce(NEW.destination_binding_revision, event.destination_binding_revision)
            <> event.destination_binding_revision
        OR coalesce(NEW.claim_partition, partition) <> partition
        OR coalesce(NEW.claim_lane, lane) <> lane
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation',
            MESSAGE = 'a delivery must agree with its event',
            TABLE = TG_TABLE_NAME,
            CONSTRAINT = 'outbox_delivery_agrees_with_event';
    END IF;
    NEW.partition_key_text := event.partition_key_text;
    NEW.aggregate_sequence := event.aggregate_sequence;
    NEW.aggregate_event_index := event.aggregate_event_index;
    NEW.ordering_required := event.ordering_required;
    NEW.destination_binding_revision := event.destination_binding_revision;
    NEW.claim_partition := partition;
    NEW.claim_lane := lane;
    NEW.updated_at := clock_timestamp();
    NEW.created_at :=
        CASE NEW.delivery_generation WHEN 1 THEN event.created_at ELSE NEW.updated_at END;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_delivery_lane_immutable
    BEFORE UPDATE ON outbox_delivery
    FOR EACH ROW
    WHEN (OLD.claim_lane <> NEW.claim_lane)
    EXECUTE FUNCTION countersign_refuse_change();
