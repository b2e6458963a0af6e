-- Open deliveries by what a process must know to send them.
SELECT e.contract_id, e.payload_version, e.payload_schema_hash, e.logical_destination_id,
       e.destination_binding_revision, count(*) AS deliveries
  FROM outbox_delivery AS d
  JOIN outbox_event AS e ON e.event_id = d.event_id
 WHERE d.blocks_scope
 GROUP BY e.contract_id, e.payload_version, e.payload_schema_hash, e.logical_destination_id,
          e.destination_binding_revision
