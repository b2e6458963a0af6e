-- $1 consumer, $2 event id, $3 envelope hash. A row means that it was first seen here.
INSERT INTO inbox_consumption (consumer_id, event_id, envelope_sha256)
VALUES ($1::text, $2::text, $3::bytea)
ON CONFLICT ON CONSTRAINT inbox_consumption_pkey DO NOTHING
RETURNING event_id
