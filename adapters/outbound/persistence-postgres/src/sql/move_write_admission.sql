-- $1 state and $2 generation as they are, $3 state and $4 generation to be. A plain UPDATE: it waits
-- for no writer's FOR KEY SHARE.
UPDATE write_admission
   SET state = $3::text, generation = $4::bigint, changed_at = clock_timestamp(),
       row_version = row_version + 1
 WHERE state = $1::text
   AND generation = $2::bigint
