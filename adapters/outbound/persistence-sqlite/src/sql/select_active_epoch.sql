-- The ACTIVE epoch.
SELECT epoch_id, authority, state, row_version FROM outbox_publication_epoch WHERE state = 'ACTIVE'
