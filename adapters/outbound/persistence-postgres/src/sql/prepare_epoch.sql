-- $1 authority, $2 settings digest.
INSERT INTO outbox_publication_epoch (epoch_id, authority, state, settings_digest)
SELECT coalesce(max(epoch_id), 0) + 1, $1::text, 'PREPARED', $2::bytea
  FROM outbox_publication_epoch
RETURNING epoch_id, authority, state, row_version
