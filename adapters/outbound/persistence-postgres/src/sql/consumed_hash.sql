-- $1 consumer, $2 event id.
SELECT envelope_sha256
  FROM inbox_consumption
 WHERE consumer_id = $1::text
   AND event_id = $2::text
