-- $1 consumer, $2 tenant scope, $3 event id.
SELECT document_sha256
  FROM inbox_consumption
 WHERE consumer_id = $1::text
   AND effect_generation = 0
   AND tenant_scope = $2::text
   AND event_id = $3::text
