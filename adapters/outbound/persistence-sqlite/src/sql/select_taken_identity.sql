-- Which identity of a refused event is taken: its id before its place in the order.
SELECT
    EXISTS (SELECT 1 FROM outbox_event WHERE event_id = ?1) AS id_taken,
    EXISTS (
        SELECT 1
        FROM outbox_event
        WHERE tenant_scope = ?2 AND logical_destination_id = ?3 AND aggregate_type = ?4
            AND aggregate_id = ?5 AND aggregate_sequence = ?6 AND aggregate_event_index = ?7
    ) AS order_taken
