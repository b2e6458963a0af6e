-- $1 consumer, $2 tenant scope, $3 event id, $4 contract, $5 payload version, $6 document hash. A row
-- means that it was first seen here.
INSERT INTO inbox_consumption
    (consumer_id, tenant_scope, event_id, contract_id, payload_version, document_sha256)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::integer, $6::bytea)
ON CONFLICT ON CONSTRAINT inbox_consumption_pkey DO NOTHING
RETURNING event_id
