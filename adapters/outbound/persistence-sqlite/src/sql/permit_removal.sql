-- Names the event that this transaction may remove.
INSERT INTO outbox_retention_permit (event_id) VALUES (?1)
