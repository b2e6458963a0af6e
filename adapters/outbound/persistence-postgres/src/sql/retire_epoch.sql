-- $1 the ACTIVE epoch.
UPDATE outbox_publication_epoch
   SET state = 'RETIRED', row_version = row_version + 1
 WHERE epoch_id = $1::bigint
   AND state = 'ACTIVE'
