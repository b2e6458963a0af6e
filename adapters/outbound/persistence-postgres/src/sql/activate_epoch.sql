-- $1 epoch, $2 row version, $3 operator, $4 approval.
UPDATE outbox_publication_epoch
   SET state = 'ACTIVE', activated_at = clock_timestamp(), activated_by = $3::text,
       approved_by = $4::text, row_version = row_version + 1
 WHERE epoch_id = $1::bigint
   AND row_version = $2::bigint
   AND state = 'PREPARED'
