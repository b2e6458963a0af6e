-- The next epoch, described and not in force.
INSERT INTO outbox_publication_epoch (epoch_id, authority, state, settings_digest)
SELECT coalesce(max(epoch_id), 0) + 1, ?1, 'PREPARED', ?2 FROM outbox_publication_epoch
RETURNING epoch_id, authority, state, row_version
